// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A ring producer's state of one of its readers. Internal to Ring (ring.h).

#ifndef TENON_IPC_RING_RING_PRODUCER_READER_H_
#define TENON_IPC_RING_RING_PRODUCER_READER_H_

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "tenon/ipc/doorbell/doorbell.h"
#include "tenon/ipc/ring/internal/ring_layout.h"
#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/process_identity.h"
#include "tenon/shm/base/process_info.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {

struct RingProducer::Reader {
  uint64_t number = 0;
  size_t index = 0;
  ControlView memory;
  std::optional<PidFd> process;
  DoorbellRinger ringer;
  bool fences = false;
  TailWatch<> tail;

  const RingReaderWords& words() const {
    return *reinterpret_cast<const RingReaderWords*>(memory.data());
  }
  bool has_left() const {
    return StdAtomics::Load(words().left, std::memory_order_acquire) != 0;
  }
  std::string Describe() const {
    const pid_t pid = PidOf(*process).value_or(0);
    return absl::StrCat("reader ", number, " (pid ", pid, " '",
                        NameOf(*process), "', ", StateOf(*process), ")");
  }
};

}  // namespace tenon

#endif  // TENON_IPC_RING_RING_PRODUCER_READER_H_
