// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StoredSegment: the memory of one segment of an arena, in its owner or in a
// process that it was offered to. For libraries that store blocks elsewhere
// than in memory of the CPU (block_store.h); users of arenas never see it.

#ifndef TENON_SHM_ARENA_STORED_SEGMENT_H_
#define TENON_SHM_ARENA_STORED_SEGMENT_H_

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/arena/file_identity.h"

namespace tenon {

// Ownership: owns this process's reference to the memory, and its mapping. The
//   memory is freed with the last reference of any process.
// Threads: the arena calls Map() and destroys it under a lock of its own; other
//   functions may run concurrently.
// Processes: also destroyed in a forked child of the process that opened it,
//   where it has to leave the parent's memory as it is.
// Death: the memory stays as long as any process has it open.
class StoredSegment {
 public:
  StoredSegment(const StoredSegment&) = delete;
  StoredSegment& operator=(const StoredSegment&) = delete;
  // Called in the thread that drops the last tensor of a closed arena, among
  // others: it must not wait for other threads or for a device.
  virtual ~StoredSegment() = default;

  // The first byte, in this process: an address of the CPU or of a device; null
  // before Map(). The arena adds offsets and accesses nothing behind it. That
  // it is not const says nothing of the access: a holder's memory may be mapped
  // read-only.
  std::byte* data() const { return data_; }
  size_t size_bytes() const { return size_bytes_; }

  // What an offer of the segment takes along: the descriptor, still owned here,
  // or if it has a name, the name instead.
  virtual int fd() const = 0;
  virtual std::string name() const { return std::string(); }

  // The same in each process, and different for each segment of the owner: the
  // owner lists it, and a holder rejects memory that has another one.
  // Errors: those of FileIdentity::Of().
  virtual absl::StatusOr<FileIdentity> Identify() const {
    return FileIdentity::Of(fd());
  }

  // Maps memory that was offered, once its size and identity have been checked.
  // No effect if it is mapped.
  // Errors: kResourceExhausted naming the limit.
  virtual absl::Status Map() { return absl::OkStatus(); }

 protected:
  explicit StoredSegment(size_t size_bytes, std::byte* data = nullptr)
      : size_bytes_(size_bytes), data_(data) {}

  void set_data(std::byte* data) { data_ = data; }

 private:
  const size_t size_bytes_;
  std::byte* data_;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_STORED_SEGMENT_H_
