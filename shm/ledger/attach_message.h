// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The message with which a process attaches to an arena, sent to its owner. One
// packet, no reply (model: att = 1), with three descriptors:
//   kLease    one end of a pair of local stream sockets. The process ends the
//             attachment when it shuts down or closes its end, also by
//             exec() or by death; the owner shuts this one down when it
//             does not read the cells any more
//   kColumn   read and write, so that the owner can reserve its pages; sealed
//             so that no process can map it writable
//   kProcess  the pidfd of the sender

#ifndef TENON_SHM_LEDGER_ATTACH_MESSAGE_H_
#define TENON_SHM_LEDGER_ATTACH_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/shm/base/random_id.h"
#include "tenon/shm/ledger/column_layout.h"

namespace tenon {

struct AttachMessage {
  static constexpr uint64_t kMagic = 0x3168636174746154;  // "Tattach1".
  enum Fd : size_t { kLease = 0, kColumn = 1, kProcess = 2 };
  static constexpr size_t kFds = 3;

  uint64_t magic = kMagic;
  uint64_t version = ColumnLayout::Version();
  RandomId arena;
  // The cells of the arena's blocks in the column.
  uint64_t first_cell = 0;
  uint64_t cells = 0;
};

static_assert(std::is_trivially_copyable_v<AttachMessage>);
static_assert(std::has_unique_object_representations_v<AttachMessage>);

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_ATTACH_MESSAGE_H_
