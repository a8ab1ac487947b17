// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ByteArray: an array in shared memory whose elements are known at run time, by
// their size and type. Array<T> (array.h) and Value<T> (value.h) are typed
// views of it, which most code wants.
//
//   const ByteArray::Elements floats = {
//       .size_bytes = 4, .alignment = 4, .type = kDtypeOf<float>, .count = 64};
//   TENON_ASSIGN_OR_RETURN(auto array, ByteArray::Create(floats));
//   TENON_ASSIGN_OR_RETURN(std::byte* const first, array.elements());

#ifndef TENON_SHM_VALUE_BYTE_ARRAY_H_
#define TENON_SHM_VALUE_BYTE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

// Ownership: owns its segment and a mapping of it; under kFileSystem no
//   descriptor (fd() is -1). A moved-from array may only be destroyed or
//   assigned to.
// Threads: thread-compatible; const calls may run concurrently.
// Processes: in a forked child elements() fails with kFailedPrecondition.
// Trust: the description of the elements is copied and checked once, against
//   the real size of the segment. The elements are untrusted.
// Failure: a call that fails has changed nothing.
class ByteArray {
 public:
  static constexpr uint32_t kMaxAlignment = 64;

  // The properties of elements on which two programs must agree: an Array<T>
  // has the size and alignment of T, and kDtypeOf<T> if T is a number.
  struct Elements {
    uint32_t size_bytes = 0;  // Of each; a multiple of `alignment`.
    uint32_t alignment = 1;   // A power of two, at most kMaxAlignment.
    DLDataType type = {};     // Zeros if they are not numbers.
    uint64_t count = 0;
  };

  ByteArray(ByteArray&&) = default;
  ByteArray& operator=(ByteArray&& other) noexcept;

  // An array of zeroed elements, on which `construct` is called, if there is
  // one, before any other process can access it.
  // Errors: kInvalidArgument for no elements, more than 2^63-1 bytes, or a size
  // or alignment other than above; Segment::CreateSharedWritable()'s.
  static absl::StatusOr<ByteArray> Create(
      const Elements& elements, const SegmentOptions& options = {},
      const std::function<void(std::byte*)>& construct = {});

  // An array that another process has sent or named. A `wanted.count` of 0
  // means any.
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument describing the
  // actual contents of the segment, or for a size or alignment as above.
  static absl::StatusOr<ByteArray> Adopt(UniqueFd fd, const Elements& wanted);
  static absl::StatusOr<ByteArray> Open(absl::string_view name,
                                        const Elements& wanted);

  // Opens the array of that name in the options, with these elements, or
  // creates it, as Segment::OpenOrCreateSharedWritable() does.
  static absl::StatusOr<ByteArray> OpenOrCreate(
      const Elements& elements, const SegmentOptions& options,
      const std::function<void(std::byte*)>& construct = {},
      bool* created = nullptr);

  // Segment::PublishAs() and Segment::Unlink().
  absl::Status PublishAs(absl::string_view name) {
    return segment_.PublishAs(name);
  }
  absl::Status Unlink() { return segment_.Unlink(); }

  // To send to a peer: the descriptor (-1 under kFileSystem), or the name
  // (empty under kFileDescriptor).
  int fd() const { return segment_.fd(); }
  const std::string& name() const { return segment_.name(); }
  uint64_t count() const { return count_; }

  // The first element; valid as long as this array is, also once it has moved.
  // Errors: kFailedPrecondition in a forked child.
  absl::StatusOr<std::byte*> elements() const;

 private:
  ByteArray(Segment segment, WritableMapping mapping, uint64_t count);
  static absl::StatusOr<ByteArray> FromSegment(Segment segment,
                                               const Elements& wanted);

  Segment segment_;
  WritableMapping mapping_;
  uint64_t count_;
  uint64_t fork_count_;
};

}  // namespace tenon

#endif  // TENON_SHM_VALUE_BYTE_ARRAY_H_
