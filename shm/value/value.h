// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Value<T>: one object in memory that processes share.
//
//   TENON_ASSIGN_OR_RETURN(auto steps, Value<int64_t>::Create());
//   const int fd = steps.fd();  // Send it to a peer:
//   TENON_ASSIGN_OR_RETURN(auto theirs,
//                          Value<int64_t>::Adopt(std::move(received)));
//   TENON_RETURN_IF_ERROR(theirs.FetchAdd(1).status());

#ifndef TENON_SHM_VALUE_VALUE_H_
#define TENON_SHM_VALUE_VALUE_H_

#include <atomic>
#include <concepts>
#include <cstddef>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/value/array.h"
#include "tenon/shm/value/byte_array.h"
#include "tenon/shm/value/shared_memory_safe.h"

namespace tenon {

// An Array (array.h) of one element, with the same ownership, threads,
// processes, trust and errors. An Array of one element may be adopted as a
// Value, and the other way round.
template <SharedMemorySafe T>
class Value {
 public:
  // A value-initialised object, or a copy of `value`.
  static absl::StatusOr<Value> Create(const SegmentOptions& options = {}) {
    return Wrap(Array<T>::Create(1, options));
  }
  static absl::StatusOr<Value> Create(
      const T& value,
      const SegmentOptions& options = {}) requires std::copy_constructible<T> {
    return Wrap(Array<T>::Wrap(ByteArray::Create(
        Array<T>::Elements(1), options,
        [&value](std::byte* element) { new (element) T(value); })));
  }
  static absl::StatusOr<Value> Adopt(UniqueFd fd) {
    return Wrap(
        Array<T>::Wrap(ByteArray::Adopt(std::move(fd), Array<T>::Elements(1))));
  }
  static absl::StatusOr<Value> Open(absl::string_view name) {
    return Wrap(Array<T>::Wrap(ByteArray::Open(name, Array<T>::Elements(1))));
  }

  // As Array::OpenOrCreate(): the object is a copy of `value` if it is created.
  static absl::StatusOr<Value> OpenOrCreate(
      const T& value, const SegmentOptions& options,
      bool* created = nullptr) requires std::copy_constructible<T> {
    return Wrap(Array<T>::Wrap(ByteArray::OpenOrCreate(
        Array<T>::Elements(1), options,
        [&value](std::byte* element) { new (element) T(value); }, created)));
  }

  absl::Status PublishAs(absl::string_view name) {
    return array_.PublishAs(name);
  }
  absl::Status Unlink() { return array_.Unlink(); }

  // -1 under kFileSystem: send name().
  int fd() const { return array_.fd(); }
  const std::string& name() const { return array_.name(); }

  absl::StatusOr<T*> get() const { return array_.At(0); }
  absl::StatusOr<T> Load(std::memory_order order = std::memory_order_seq_cst)
      const requires AtomicallyShared<T> {
    return array_.Load(0, order);
  }
  absl::Status Store(T value,
                     std::memory_order order = std::memory_order_seq_cst)
      const requires AtomicallyShared<T> {
    return array_.Store(0, value, order);
  }
  absl::StatusOr<T> FetchAdd(
      T value, std::memory_order order = std::memory_order_seq_cst) const
      requires(AtomicallyShared<T> && !std::same_as<T, bool>) {
    return array_.FetchAdd(0, value, order);
  }

 private:
  explicit Value(Array<T> array) : array_(std::move(array)) {}

  static absl::StatusOr<Value> Wrap(absl::StatusOr<Array<T>> array) {
    if (!array.ok()) return array.status();
    return Value(*std::move(array));
  }

  Array<T> array_;
};

}  // namespace tenon

#endif  // TENON_SHM_VALUE_VALUE_H_
