// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TorchStorage: the memory of one storage, shared by name with processes of
// torch (sharing strategy file_system), in both directions.
//
//   // To torch, which opens it, with the --torch_path of a daemon of names, by
//   //   torch.UntypedStorage._new_shared_filename_cpu(
//   //       torch_path, name, size_bytes)
//   TENON_ASSIGN_OR_RETURN(TorchStorage storage, TorchStorage::Create(4096));
//   storage.bytes()[0] = std::byte{42};
//
//   // From torch: storage._share_filename_cpu_() is (manager, name, size).
//   TENON_ASSIGN_OR_RETURN(TorchStorage theirs,
//                          TorchStorage::Open(manager, name, 4096, deadline));

#ifndef TENON_SHM_MANAGER_TORCH_STORAGE_H_
#define TENON_SHM_MANAGER_TORCH_STORAGE_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// Ownership: a reference to a file of torch, which has a count of them in its
//   first 64 bytes. One that was created here is a named segment
//   (SharingStrategy::kFileSystem): its name is removed with this object, or as
//   that of a dead process. Its first reference is never dropped, so that torch,
//   which adds and drops its own, never removes it. One that torch created is
//   removed by the process, of torch or not, that drops the last reference.
// Threads: thread-compatible. bytes() is memory that other processes write.
// Processes: inert in a forked child, which keeps the memory.
// Trust: any process of the user may write, or truncate the file.
// Death: a process killed with an open storage leaves its reference: a daemon
//   of names removes the name with the last registered process, torch's own
//   manager with its last client.
// Failure: a failed factory leaves nothing behind.
class TorchStorage {
 public:
  // Zeroed. Errors: kInvalidArgument if size_bytes is 0 or the prefix has more
  // than 25 characters, the most that torch has room for; those of
  // Segment::CreateSharedWritable().
  static absl::StatusOr<TorchStorage> Create(
      size_t size_bytes, absl::string_view name_prefix = "tenon");

  // What torch's _share_filename_cpu_() returned: registers with the manager,
  // torch's own or a daemon of names, and opens the memory. Blocks until
  // `deadline` for the manager.
  // Errors: kInvalidArgument for a malformed name or path; kUnavailable if no
  // manager listens there; kDeadlineExceeded; kPermissionDenied if it refuses
  // the name, or if the file is not this user's alone; kNotFound if it has been
  // removed; kFailedPrecondition if it is shorter than size_bytes and torch's
  // header; those of Segment::Open().
  static absl::StatusOr<TorchStorage> Open(absl::string_view manager,
                                           absl::string_view name,
                                           size_t size_bytes,
                                           Deadline deadline);

  ~TorchStorage();
  TorchStorage(TorchStorage&&) noexcept;
  TorchStorage& operator=(TorchStorage&&) noexcept;

  std::span<std::byte> bytes() const;
  // With torch's slash.
  const std::string& name() const;

 private:
  class State;
  explicit TorchStorage(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_TORCH_STORAGE_H_
