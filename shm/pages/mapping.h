// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ReadOnlyMapping and WritableMapping: address ranges over a segment.
//
//   TENON_ASSIGN_OR_RETURN(ReadOnlyMapping mapping, segment.MapReadOnly());
//   std::span<const std::byte> bytes = mapping.bytes();
//
// They are made by a Segment (segment.h) and outlive it: the memory lives as
// long as any segment or mapping of any process refers to it.

#ifndef TENON_SHM_PAGES_MAPPING_H_
#define TENON_SHM_PAGES_MAPPING_H_

#include <cstddef>
#include <span>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {
namespace internal_mapping {

// Owns an address range; unmaps it when destroyed or assigned to. Empty when
// moved from.
class Range {
 public:
  Range() = default;
  Range(void* data, size_t size_bytes) : data_(data), size_(size_bytes) {}
  ~Range() { Unmap(); }
  Range(Range&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Range& operator=(Range&& other) noexcept;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  size_t size() const { return size_; }

 private:
  void Unmap();

  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace internal_mapping

// The size of the huge pages that Tenon uses.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

struct MapOptions {
  // Enters the pages into the page table at once (and allocates missing ones),
  // not at the first touch of each. Blocks meanwhile.
  bool prefault = false;
  // Begins at a multiple of 2 MiB, which takes two or three more system calls:
  // required for joined huge pages to be entered as such.
  bool align_to_huge_pages = false;
};

// A view that this process cannot write through.
// Ownership: unmaps its range when destroyed or assigned to; needs no segment
//   to stay.
// Threads: thread-compatible; the bytes may change whenever a writer elsewhere
//   writes them.
// Processes: a forked child inherits the range with the same memory behind it.
// Trust: the bytes are untrusted; copy, check, then use.
class ReadOnlyMapping {
 public:
  ReadOnlyMapping() = default;

  // Maps all `size_bytes` (> 0) of `fd` from its start. `what` names the
  // object in errors. The descriptor may be closed afterwards.
  // Errors: kInvalidArgument for size 0, kPermissionDenied if the descriptor
  // cannot be read from, kResourceExhausted naming vm.max_map_count or, if it
  // is prefaulted, memory; madvise()'s where touching a page would be fatal.
  static absl::StatusOr<ReadOnlyMapping> Map(int fd, size_t size_bytes,
                                             absl::string_view what,
                                             const MapOptions& options = {});

  // Empty if default-constructed or moved from.
  std::span<const std::byte> bytes() const {
    return {range_.data(), range_.size()};
  }
  const std::byte* data() const { return range_.data(); }
  size_t size_bytes() const { return range_.size(); }

 private:
  explicit ReadOnlyMapping(internal_mapping::Range range)
      : range_(std::move(range)) {}
  internal_mapping::Range range_;
};

// A view that this process may write through. Otherwise as ReadOnlyMapping.
class WritableMapping {
 public:
  WritableMapping() = default;

  // As ReadOnlyMapping::Map. Errors: also kPermissionDenied if the descriptor
  // is read-only or its segment is sealed against new writers.
  static absl::StatusOr<WritableMapping> Map(int fd, size_t size_bytes,
                                             absl::string_view what,
                                             const MapOptions& options = {});

  std::span<std::byte> bytes() const { return {range_.data(), range_.size()}; }
  std::byte* data() const { return range_.data(); }
  size_t size_bytes() const { return range_.size(); }

 private:
  explicit WritableMapping(internal_mapping::Range range)
      : range_(std::move(range)) {}
  internal_mapping::Range range_;
};

}  // namespace tenon

#endif  // TENON_SHM_PAGES_MAPPING_H_
