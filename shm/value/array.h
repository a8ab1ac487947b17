// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Array<T>: objects in memory that processes share.
//
//   TENON_ASSIGN_OR_RETURN(auto errors, Array<uint64_t>::Create(workers));
//   const int fd = errors.fd();  // Send it to a peer:
//   TENON_ASSIGN_OR_RETURN(auto theirs,
//                          Array<uint64_t>::Adopt(std::move(received)));
//   TENON_RETURN_IF_ERROR(theirs.FetchAdd(worker, 1).status());
//
// It is for groups of processes that trust each other. There is no lock in it:
// use Load(), Store() and FetchAdd(), or agree on which process writes when.
// For elements with a shape there is Tensor (tensor.h).

#ifndef TENON_SHM_VALUE_ARRAY_H_
#define TENON_SHM_VALUE_ARRAY_H_

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/value/byte_array.h"
#include "tenon/shm/value/shared_memory_safe.h"

namespace tenon {

// What Load() and Store() are for.
template <typename T>
concept AtomicallyShared =
    std::integral<T> && std::atomic_ref<T>::is_always_lock_free;

// A fixed number of elements, dense.
// Ownership: owns a mapping, the descriptor, and, if it was created with
//   kFileSystem, the name. The memory lives as long as any process has it open
//   or mapped. A moved-from array may only be destroyed or assigned to.
// Threads, processes: Load(), Store() and FetchAdd() of any number of threads
//   and processes may run at once; data() is plain memory. In a forked child
//   every access is kFailedPrecondition: send it the descriptor.
// Trust: peers can write any bytes, including bytes that are not a valid T. The
//   layout is checked once and then known here: no write of a peer makes this
//   process access memory outside of the elements.
// Failure: a call that fails has changed nothing.
template <SharedMemorySafe T>
class Array {
  static_assert(alignof(T) <= ByteArray::kMaxAlignment);

 public:
  // `count` value-initialised elements.
  // Errors: kInvalidArgument for count 0 or too many bytes;
  // Segment::CreateSharedWritable()'s.
  static absl::StatusOr<Array> Create(size_t count,
                                      const SegmentOptions& options = {}) {
    return Wrap(ByteArray::Create(
        Elements(count), options,
        [count](std::byte* elements) { Construct(elements, count); }));
  }

  // An array that another process has created, with the same T.
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if the segment
  // does not hold an Array, or holds elements of another size, alignment or,
  // for numbers, type.
  static absl::StatusOr<Array> Adopt(UniqueFd fd) {
    return Wrap(ByteArray::Adopt(std::move(fd), Elements(0)));
  }
  static absl::StatusOr<Array> Open(absl::string_view name) {
    return Wrap(ByteArray::Open(name, Elements(0)));
  }

  // The array of that name in the options, opened, or created as Create() does;
  // exactly one of any number of processes creates it. For other initial values
  // see open_or_create.h. Errors: kInvalidArgument, also without a name, or if
  // it exists with another number of elements; those of Create() and Open().
  static absl::StatusOr<Array> OpenOrCreate(size_t count,
                                            const SegmentOptions& options,
                                            bool* created = nullptr) {
    return Wrap(ByteArray::OpenOrCreate(
        Elements(count), options,
        [count](std::byte* elements) { Construct(elements, count); }, created));
  }

  // Segment::PublishAs() and Segment::Unlink(). Errors: as there.
  absl::Status PublishAs(absl::string_view name) {
    return bytes_.PublishAs(name);
  }
  absl::Status Unlink() { return bytes_.Unlink(); }

  // To send to a peer: the descriptor (-1 under kFileSystem), or the name
  // (empty under kFileDescriptor).
  int fd() const { return bytes_.fd(); }
  const std::string& name() const { return bytes_.name(); }
  size_t size() const { return bytes_.count(); }

  // The elements; valid as long as this array is.
  // Errors: kFailedPrecondition in a forked child, here and below.
  absl::StatusOr<absl::Span<T>> data() const {
    const absl::StatusOr<std::byte*> first = bytes_.elements();
    if (!first.ok()) return first.status();
    return absl::Span<T>(reinterpret_cast<T*>(*first), size());
  }

  // Atomic access to one element. Errors: kOutOfRange.
  absl::StatusOr<T> Load(size_t index,
                         std::memory_order order = std::memory_order_seq_cst)
      const requires AtomicallyShared<T> {
    const absl::StatusOr<T*> element = At(index);
    if (!element.ok()) return element.status();
    return std::atomic_ref<T>(**element).load(order);
  }
  absl::Status Store(size_t index, T value,
                     std::memory_order order = std::memory_order_seq_cst)
      const requires AtomicallyShared<T> {
    const absl::StatusOr<T*> element = At(index);
    if (!element.ok()) return element.status();
    std::atomic_ref<T>(**element).store(value, order);
    return absl::OkStatus();
  }
  // Returns the previous value; wraps around.
  absl::StatusOr<T> FetchAdd(
      size_t index, T value,
      std::memory_order order = std::memory_order_seq_cst) const
      requires(AtomicallyShared<T> && !std::same_as<T, bool>) {
    const absl::StatusOr<T*> element = At(index);
    if (!element.ok()) return element.status();
    return std::atomic_ref<T>(**element).fetch_add(value, order);
  }

 private:
  template <SharedMemorySafe>
  friend class Value;

  explicit Array(ByteArray bytes) : bytes_(std::move(bytes)) {}

  static absl::StatusOr<Array> Wrap(absl::StatusOr<ByteArray> bytes) {
    if (!bytes.ok()) return bytes.status();
    return Array(*std::move(bytes));
  }

  static void Construct(std::byte* elements, size_t count) {
    // New memory is zeroed; for most types the zeros are a valid value.
    if constexpr (!std::is_trivially_default_constructible_v<T>) {
      std::uninitialized_value_construct_n(reinterpret_cast<T*>(elements),
                                           count);
    }
  }

  static ByteArray::Elements Elements(uint64_t count) {
    DLDataType type = {};
    if constexpr (TensorElement<T>) type = kDtypeOf<T>;
    if constexpr (std::same_as<T, bool>) type = {kBoolCode, 8, 1};
    return {.size_bytes = sizeof(T),
            .alignment = alignof(T),
            .type = type,
            .count = count};
  }

  absl::StatusOr<T*> At(size_t index) const {
    const absl::StatusOr<std::byte*> first = bytes_.elements();
    if (!first.ok()) return first.status();
    if (index >= size()) {
      return absl::OutOfRangeError(absl::StrCat(
          "element ", index, " of an Array of ", size(), " elements"));
    }
    return reinterpret_cast<T*>(*first) + index;
  }

  ByteArray bytes_;
};

}  // namespace tenon

#endif  // TENON_SHM_VALUE_ARRAY_H_
