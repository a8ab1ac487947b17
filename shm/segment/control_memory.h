// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ControlMemory: memory that one process writes and every other may only read,
// for words like lease cells and generations.
//
//   TENON_ASSIGN_OR_RETURN(auto memory, ControlMemory::Create(1 << 30, "x"));
//   TENON_RETURN_IF_ERROR(memory.Reserve(0, 4096));   // Now it may be touched.
//   // memory.fd() is sent; the reader:
//   TENON_RETURN_IF_ERROR(ReserveControlMemory(fd, {0, 4096}, what));
//   TENON_ASSIGN_OR_RETURN(auto view, ControlView::Adopt(fd, {0, 4096}, what));
//
// A sparse memfd: large in addresses, and only reserved pages take memory.
// Sealed once it is mapped: its size is fixed, and no process, not even its
// writer, can map it writable again or punch holes into it
// (F_SEAL_FUTURE_WRITE).

#ifndef TENON_SHM_SEGMENT_CONTROL_MEMORY_H_
#define TENON_SHM_SEGMENT_CONTROL_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// In bytes.
struct ByteRange {
  size_t offset = 0;
  size_t size = 0;
};

namespace internal_control_memory {

// Owns an address range that forked children do not inherit
// (MADV_DONTFORK); in such a child it owns nothing.
class PrivateRange {
 public:
  PrivateRange() = default;
  static absl::StatusOr<PrivateRange> Map(int fd, ByteRange range,
                                          int protection,
                                          absl::string_view what);
  ~PrivateRange() { Unmap(); }
  PrivateRange(PrivateRange&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        fork_count_(other.fork_count_) {}
  PrivateRange& operator=(PrivateRange&& other) noexcept;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void Unmap();

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace internal_control_memory

// The writer's end.
// Ownership: owns the descriptor (close-on-exec) and its mapping. The memory is
//   freed with the last descriptor and mapping of any process.
// Threads: thread-compatible; Reserve() may run concurrently with any call.
// Processes: a forked child has the descriptor and not the mapping. Code that
//   may run in one checks ForkCount() before data().
// Failure: a failed call leaves nothing behind.
class ControlMemory {
 public:
  // `label` is shown in /proc/PID/maps and /proc/PID/fd as "memfd:label".
  // Errors: kResourceExhausted naming the limit (descriptors, file size,
  // mappings, address space).
  static absl::StatusOr<ControlMemory> Create(size_t size_bytes,
                                              const std::string& label);

  // Allocates pages for the range, zeroed if they are new: from then on
  // accesses by writer and readers cannot fault. Idempotent. Blocks while the
  // kernel allocates. Errors: kResourceExhausted naming the limit.
  absl::Status Reserve(ByteRange range) const;

  std::byte* data() const { return range_.data(); }
  size_t size_bytes() const { return range_.size(); }
  int fd() const { return fd_.get(); }

 private:
  ControlMemory(UniqueFd fd, internal_control_memory::PrivateRange range,
                std::string what)
      : fd_(std::move(fd)), range_(std::move(range)), what_(std::move(what)) {}

  UniqueFd fd_;
  internal_control_memory::PrivateRange range_;
  std::string what_;
};

// A reader's end: part of another process's control memory.
// Ownership: owns a mapping; the descriptor is the caller's. Otherwise as
//   ControlMemory.
// Trust: the writer may change any word at any time.
class ControlView {
 public:
  ControlView() = default;

  // Checks that `fd` is control memory of at least the range's end, and maps
  // the range, whose offset is a multiple of the page size. Pages must be
  // reserved before they are accessed. Does not wait for any peer.
  // Errors: kInvalidArgument if it is not memory or too small,
  // kFailedPrecondition naming the missing seals, kResourceExhausted naming the
  // limit.
  static absl::StatusOr<ControlView> Adopt(int fd, ByteRange range,
                                           absl::string_view what);

  // Empty if default-constructed or moved from.
  const std::byte* data() const { return range_.data(); }
  size_t size_bytes() const { return range_.size(); }

 private:
  explicit ControlView(internal_control_memory::PrivateRange range)
      : range_(std::move(range)) {}

  internal_control_memory::PrivateRange range_;
};

// The checks of Adopt() alone; returns the size. Errors: as there.
absl::StatusOr<size_t> CheckIsControlMemory(int fd, absl::string_view what);

// As ControlMemory::Reserve(), by a reader, which is charged for the missing
// pages. Errors: also kFailedPrecondition if the descriptor is read-only.
absl::Status ReserveControlMemory(int fd, ByteRange range,
                                  absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_CONTROL_MEMORY_H_
