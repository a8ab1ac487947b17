// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ValueBlock: the segment behind a Value or an Array, with a header that
// describes its contents. Knows sizes, not types.
//
//   0       8         12              16          20     24      32     64
//   | magic | version | element_bytes | alignment | type | count | zero | ...
//
// The magic number is stored last (release), after the elements have been
// constructed: a reader that sees it (acquire) sees the rest.

#ifndef TENON_SHM_VALUE_VALUE_BLOCK_H_
#define TENON_SHM_VALUE_VALUE_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

struct ValueHeader {
  static constexpr uint64_t kMagic = 0x6c61566e6f6e6554;  // "TenonVal"
  static constexpr uint32_t kVersion = 1;

  uint64_t magic;
  uint32_t version;
  uint32_t element_bytes;
  uint32_t alignment;
  uint32_t type;
  uint64_t count;
  uint64_t zero[4];
};
static_assert(sizeof(ValueHeader) == 64);
static_assert(std::is_trivially_copyable_v<ValueHeader>);

// Ownership: owns its segment and a mapping of it; under kFileSystem no
//   descriptor (fd() is -1). A moved-from block may only be destroyed or
//   assigned to.
// Threads: thread-compatible; const calls may run concurrently.
// Processes: in a forked child elements() fails with kFailedPrecondition.
// Trust: the header is copied and checked once, against the real size of the
//   segment. The elements are untrusted.
class ValueBlock {
 public:
  // The properties of elements on which two programs must agree.
  struct Elements {
    uint32_t size_bytes = 0;
    uint32_t alignment = 1;
    uint32_t type = 0;  // Distinguishes numbers of one size; 0 if unknown.
    uint64_t count = 0;
  };

  // A block of zeroed elements, on which `construct` is called before any other
  // process can access it.
  // Errors: kInvalidArgument for no elements or more than 2^63-1 bytes;
  // Segment::CreateSharedWritable()'s.
  static absl::StatusOr<ValueBlock> Create(
      const Elements& elements, const SegmentOptions& options,
      const std::function<void(std::byte*)>& construct);

  // A block that another process has sent or named. A `wanted.count` of 0 means
  // any.
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument describing the
  // actual contents of the segment.
  static absl::StatusOr<ValueBlock> Adopt(UniqueFd fd, const Elements& wanted);
  static absl::StatusOr<ValueBlock> Open(absl::string_view name,
                                         const Elements& wanted);

  int fd() const { return segment_.fd(); }
  const std::string& name() const { return segment_.name(); }
  uint64_t count() const { return count_; }

  // Errors: kFailedPrecondition in a forked child.
  absl::StatusOr<std::byte*> elements() const;

 private:
  ValueBlock(Segment segment, WritableMapping mapping, uint64_t count);
  static absl::StatusOr<ValueBlock> FromSegment(Segment segment,
                                                const Elements& wanted);

  Segment segment_;
  WritableMapping mapping_;
  uint64_t count_;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace tenon

#endif  // TENON_SHM_VALUE_VALUE_BLOCK_H_
