// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/value/byte_array.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/copy_from_shared.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/open_or_create.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/value/value_header.h"

namespace tenon {
namespace {

static_assert(sizeof(ValueHeader) == ByteArray::kMaxAlignment,
              "the first element, behind the header, must be aligned");

absl::Status CheckElements(const ByteArray::Elements& elements) {
  const uint32_t alignment = elements.alignment;
  if (std::has_single_bit(alignment) && alignment <= ByteArray::kMaxAlignment &&
      elements.size_bytes != 0 && elements.size_bytes % alignment == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "ByteArray: elements of ", elements.size_bytes, " bytes aligned to ",
      alignment, "; want a power of two up to ", ByteArray::kMaxAlignment,
      " as alignment, and a multiple of it as size"));
}

uint32_t Encode(DLDataType type) {
  return uint32_t{type.code} << 24 | uint32_t{type.bits} << 16 | type.lanes;
}

// Header and elements; empty on overflow.
std::optional<uint64_t> SizeOf(uint64_t element_bytes, uint64_t count) {
  uint64_t size;
  if (__builtin_mul_overflow(element_bytes, count, &size) ||
      __builtin_add_overflow(size, sizeof(ValueHeader), &size) ||
      size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return {};
  }
  return size;
}

absl::Status Refuse(absl::string_view what, uint64_t is, uint64_t wanted) {
  return absl::InvalidArgumentError(absl::StrCat(
      "a segment as Value or Array: ", what, " is ", is, "; want ", wanted));
}

absl::Status CheckHeader(const ValueHeader& header,
                         const ByteArray::Elements& wanted,
                         uint64_t segment_bytes) {
  if (header.version != ValueHeader::kVersion) {
    return Refuse("the version of its layout", header.version,
                  ValueHeader::kVersion);
  }
  if (header.element_bytes != wanted.size_bytes) {
    return Refuse("the size of an element", header.element_bytes,
                  wanted.size_bytes);
  }
  if (header.alignment != wanted.alignment) {
    return Refuse("the alignment", header.alignment, wanted.alignment);
  }
  if (header.type != Encode(wanted.type)) {
    return Refuse("the type of an element", header.type, Encode(wanted.type));
  }
  if (header.count == 0 ||
      (wanted.count != 0 && header.count != wanted.count)) {
    return Refuse("the number of elements", header.count,
                  wanted.count == 0 ? 1 : wanted.count);
  }
  const std::optional<uint64_t> size =
      SizeOf(header.element_bytes, header.count);
  if (size != segment_bytes) {
    return Refuse("the size of the segment", segment_bytes,
                  size.value_or(std::numeric_limits<uint64_t>::max()));
  }
  return absl::OkStatus();
}

// Called once it is mapped: the name suffices to share it.
absl::Status CloseIfNamed(Segment& segment) {
  return segment.strategy() == SharingStrategy::kFileSystem ? segment.CloseFd()
                                                            : absl::OkStatus();
}

}  // namespace

ByteArray::ByteArray(Segment segment, WritableMapping mapping, uint64_t count)
    : segment_(std::move(segment)),
      mapping_(std::move(mapping)),
      count_(count),
      fork_count_(ForkCount()) {}

ByteArray& ByteArray::operator=(ByteArray&& other) noexcept {
  // In this order: a chosen name is removed by the last holder's segment.
  mapping_ = std::move(other.mapping_);
  segment_ = std::move(other.segment_);
  count_ = other.count_;
  fork_count_ = other.fork_count_;
  return *this;
}

absl::StatusOr<ByteArray> ByteArray::Create(
    const Elements& elements, const SegmentOptions& options,
    const std::function<void(std::byte*)>& construct) {
  TENON_RETURN_IF_ERROR(CheckElements(elements));
  const std::optional<uint64_t> size =
      SizeOf(elements.size_bytes, elements.count);
  if (elements.count == 0 || !size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an Array of ", elements.count, " elements of ", elements.size_bytes,
        " bytes; want at least one, and at most 2^63-1 bytes"));
  }
  // Named when it is complete.
  SegmentOptions unnamed = options;
  TENON_ASSIGN_OR_RETURN(unnamed.strategy, StrategyOf(options));
  unnamed.name.clear();
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Segment::CreateSharedWritable(*size, unnamed));
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  TENON_RETURN_IF_ERROR(CloseIfNamed(segment));
  auto* header = reinterpret_cast<ValueHeader*>(mapping.data());
  header->version = ValueHeader::kVersion;
  header->element_bytes = elements.size_bytes;
  header->alignment = elements.alignment;
  header->type = Encode(elements.type);
  header->count = elements.count;
  if (construct) construct(mapping.data() + sizeof(ValueHeader));
  __atomic_store_n(&header->magic, ValueHeader::kMagic, __ATOMIC_RELEASE);
  if (!options.name.empty()) {
    TENON_RETURN_IF_ERROR(segment.PublishAs(options.name));
  }
  return ByteArray(std::move(segment), std::move(mapping), elements.count);
}

absl::StatusOr<ByteArray> ByteArray::Adopt(UniqueFd fd,
                                           const Elements& wanted) {
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Segment::Adopt(std::move(fd), SegmentKind::kSharedWritable));
  return FromSegment(std::move(segment), wanted);
}

absl::StatusOr<ByteArray> ByteArray::Open(absl::string_view name,
                                          const Elements& wanted) {
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Segment::Open(name, SegmentKind::kSharedWritable));
  return FromSegment(std::move(segment), wanted);
}

absl::StatusOr<ByteArray> ByteArray::OpenOrCreate(
    const Elements& elements, const SegmentOptions& options,
    const std::function<void(std::byte*)>& construct, bool* created) {
  TENON_RETURN_IF_ERROR(CheckChosenShmName(options.name));
  return tenon::OpenOrCreate(
      [&] { return Open(options.name, elements); },
      [&] { return Create(elements, options, construct); }, created);
}

absl::StatusOr<ByteArray> ByteArray::FromSegment(Segment segment,
                                                 const Elements& wanted) {
  TENON_RETURN_IF_ERROR(CheckElements(wanted));
  if (segment.size_bytes() < sizeof(ValueHeader)) {
    return Refuse("the size of the segment", segment.size_bytes(),
                  sizeof(ValueHeader));
  }
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  TENON_RETURN_IF_ERROR(CloseIfNamed(segment));
  const auto* shared = reinterpret_cast<const ValueHeader*>(mapping.data());
  if (__atomic_load_n(&shared->magic, __ATOMIC_ACQUIRE) !=
      ValueHeader::kMagic) {
    return absl::InvalidArgumentError(
        "a segment as Value or Array: it holds neither, or is incomplete");
  }
  const ValueHeader header = CopyFromShared(shared);
  TENON_RETURN_IF_ERROR(CheckHeader(header, wanted, segment.size_bytes()));
  return ByteArray(std::move(segment), std::move(mapping), header.count);
}

absl::StatusOr<std::byte*> ByteArray::elements() const {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "a Value or Array"));
  return mapping_.data() + sizeof(ValueHeader);
}

}  // namespace tenon
