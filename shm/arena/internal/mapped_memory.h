// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MappedStore: blocks in mapped segments, the memory of the CPU. MappedMemory:
// one of these segments. MappedKind: opens them in other processes. Internal to
// arenas.

#ifndef TENON_SHM_ARENA_INTERNAL_MAPPED_MEMORY_H_
#define TENON_SHM_ARENA_INTERNAL_MAPPED_MEMORY_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/mapped_pages.h"
#include "tenon/shm/arena/memory_kind.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/device.h"

namespace tenon {

class MappedMemory final : public StoredSegment {
 public:
  // Of a segment that was created here: its only writer, or one of all.
  explicit MappedMemory(Segment::OwnerWritten made)
      : StoredSegment(made.segment.size_bytes(), made.mapping.data()),
        segment_(std::move(made.segment)),
        pages_(MappedPages::Of(std::move(made.mapping))) {}
  // Of a segment that was offered. Not mapped yet.
  explicit MappedMemory(Segment segment)
      : StoredSegment(segment.size_bytes()), segment_(std::move(segment)) {}
  ~MappedMemory() override;

  int fd() const override { return segment_.fd(); }
  std::string name() const override { return segment_.name(); }
  // Writable if the segment is shared-writable.
  absl::Status Map() override;

 private:
  const Segment segment_;
  std::shared_ptr<MappedPages> pages_;  // Null before Map().
};

class MappedStore : public BlockStore {
 public:
  // Segments of ArenaOptions::kind with ArenaOptions::segment. `facts` for
  // tests of other kinds.
  explicit MappedStore(const ArenaOptions& options, Facts facts = {});

  absl::Status CheckOptions(const ArenaOptions& options) const override;
  absl::StatusOr<std::unique_ptr<StoredSegment>> Create(size_t bytes) override;
  absl::Status Wipe(std::byte* block, size_t bytes) override;
  void Poison(std::byte* block, size_t bytes) override;
  absl::Status Protect(std::byte* block, size_t bytes) override;
  absl::Status Unprotect(std::byte* block, size_t bytes) override;

 private:
  const SegmentKind kind_;
  SegmentOptions options_;
};

// The CPU's memory. Another kind of the same memory is for tests.
class MappedKind final : public MemoryKind {
 public:
  explicit constexpr MappedKind(MemoryKindId id = MemoryKindId::kCpu)
      : MemoryKind(id) {}

  absl::StatusOr<DLDevice> DeviceOf(const DeviceIdentity&) const override {
    return kCpuDevice;
  }
  absl::StatusOr<std::unique_ptr<StoredSegment>> Open(
      OfferedSegment offered) const override;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_INTERNAL_MAPPED_MEMORY_H_
