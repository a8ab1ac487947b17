// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_SHM_EXAMPLE_NAMES_H_
#define TENON_SHM_EXAMPLE_NAMES_H_

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/exchange/dlpack.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

// Types of the user.
struct Matrix {
  float elements[16];
};
struct MyHalf {
  uint16_t bits;
};

// A descriptor that a peer has sent.
extern tenon::UniqueFd received;
extern std::string bytes;
extern DLManagedTensorVersioned* theirs;

absl::Status Run();

extern const tenon::Deadline deadline;
extern tenon::PidFd child;
extern const tenon::Segment segment;
extern tenon::Tensor tensor;
// In shared memory.
struct Slot {
  tenon::TensorSpec spec;
};
extern const Slot* slot;
extern std::atomic<int> head;
extern std::atomic<int> sleeping;
extern tenon::TimeWords waits;
extern const uint64_t ns;

extern void* data;
extern const int fd;
extern const int n;
extern const char* path;
extern const pid_t pid;
extern const size_t size;
extern const size_t worker;
extern const size_t workers;
void Wake();

#endif  // TENON_SHM_EXAMPLE_NAMES_H_
