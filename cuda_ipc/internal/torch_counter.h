// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Counters of torch: by which the receiver of a CUDA tensor tells the process
// that sent it that it has released the memory. One of the two is torch, or
// both are Tenon. Internal to cuda_ipc.
//
//   0            64          72
//   | references | counter 0 | counter 1 | ...   a file in /dev/shm
//
// torch sets a counter of its own to 1 for each message, and the receiver of
// that message lowers it once. Here the file is read and written by system
// calls and never mapped, because any process of the user may truncate it.
// `references` counts torch's mappings of the file, and stays as it is.
//
// The functions take the file's name as torch sends it, with a slash, and the
// number of a counter. Any thread may call them. Trust: the arguments and the
// file may be anything. At most 8 bytes of a file of torch's name, mode and
// owner are written, and only to lower a positive number.

#ifndef TENON_CUDA_IPC_INTERNAL_TORCH_COUNTER_H_
#define TENON_CUDA_IPC_INTERNAL_TORCH_COUNTER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/segment/segment.h"

namespace tenon::cuda_ipc {

// OK if the counter can be released.
// Errors: kInvalidArgument for another name than torch's, and if the file ends
// before the counter; kNotFound if there is no such file, as after the end of
// its torch; kPermissionDenied if it is not a regular, private file of this
// user; kFailedPrecondition if the counter is 0.
absl::Status CheckTorchCounter(absl::string_view file, int64_t counter);

// Lowers the counter by one. Errors: as above.
absl::Status ReleaseTorchCounter(absl::string_view file, int64_t counter);

// A file of counters for what this process sends. torch maps it, lowers one
// counter, and unmaps it; it removes the name of a file whose `references` it
// has lowered to 0, which here are 1 for ever.
// Ownership: a named segment of Tenon (SharingStrategy::kFileSystem). The name
//   is removed with this object, or reclaimed as that of a dead process.
// Threads: thread-compatible; const calls may run concurrently.
// Processes: a forked child may only destroy it, which keeps the name.
// Trust: any process of the user may write or truncate the file.
class TorchCounterFile {
 public:
  // As torch has it, which maps a file of exactly so many.
  static constexpr int64_t kCounters = 10'000;

  // All counters are 0. Errors: those of Segment::CreateSharedWritable().
  static absl::StatusOr<std::unique_ptr<TorchCounterFile>> Create();

  // With torch's slash.
  const std::string& name() const { return name_; }
  bool is_full() const { return used_ == kCounters; }

  // A counter that had no message yet, set to 1. Not if is_full().
  // Errors: pwrite()'s.
  absl::StatusOr<int64_t> Add();

  // Whether the message of a counter of Add() has been released.
  // Errors: kDataLoss if the file was truncated; pread()'s.
  absl::StatusOr<bool> IsReleased(int64_t counter) const;
  // Sets the counter to 0: a receiver that comes later is refused.
  absl::Status Clear(int64_t counter) const;

 private:
  explicit TorchCounterFile(Segment segment);

  absl::Status Write(int64_t counter, int64_t value) const;

  Segment segment_;
  const std::string name_;
  int64_t used_ = 0;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_TORCH_COUNTER_H_
