// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensor: elements in a storage that keeps itself alive.
//
//   TENON_ASSIGN_OR_RETURN(Tensor batch,
//                          Tensor::Create(kDtypeOf<float>, {64, 3, 32, 32}));
//   TENON_ASSIGN_OR_RETURN(Tensor image, batch.Select(0, 5));  // A view.
//   TENON_RETURN_IF_ERROR(image.Fill(0.5f));
//   TENON_RETURN_IF_ERROR(batch.Share());  // Other processes can map it now.
//   TENON_ASSIGN_OR_RETURN(absl::Span<const float> pixels,
//                          image.data<const float>());
//
// A tensor does not compute. To send one: tensor_handle.h. To exchange one with
// other libraries: dlpack.h.
//
// The device is the storage's: views, specs and messages are the same on all
// devices, and only what reads or writes elements differs.

#ifndef TENON_SHM_TENSOR_TENSOR_H_
#define TENON_SHM_TENSOR_TENSOR_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

struct SharedTensorOptions {
  // kOwnerWritten: only this process can ever write it.
  SegmentKind kind = SegmentKind::kSharedWritable;
  SegmentOptions segment;
};

// The type as which elements are accessed: their own, or std::byte for any
// dtype; const to read, else to write.
template <typename T>
concept TensorAccess = TensorElement<std::remove_const_t<T>> ||
    std::same_as<std::remove_const_t<T>, std::byte>;

// Ownership: a reference to a storage, shared by its copies and views, and a
//   spec of its own. Like a pointer, a const Tensor gives access to elements
//   that are not const. Default-constructed and moved-from: without elements.
// Threads: thread-compatible; tensors of one storage may be used concurrently
//   as far as their elements may. Share() needs exclusive access to all of
//   them.
// Processes: in a forked child, access to a shared tensor (not to a private
//   one) fails with kFailedPrecondition. Processes that share a tensor agree
//   among themselves on which of them writes when.
// Trust: elements that peers can write may change while they are read.
// Failure: a call that fails has changed nothing.
class Tensor {
 public:
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor& operator=(const Tensor&) = default;
  Tensor(Tensor&& other) noexcept
      : spec_(other.spec_), storage_(std::move(other.storage_)) {
    other.spec_ = TensorSpec();
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this == &other) return *this;
    spec_ = std::exchange(other.spec_, TensorSpec());
    storage_ = std::move(other.storage_);
    return *this;
  }

  // A dense tensor in memory of this process, or in a new zeroed segment.
  // Errors: TensorSpec::Contiguous()'s and Storage::Create...()'s.
  static absl::StatusOr<Tensor> Create(DLDataType dtype,
                                       absl::Span<const int64_t> shape,
                                       MemoryInit init = MemoryInit::kZeros);
  static absl::StatusOr<Tensor> CreateShared(
      DLDataType dtype, absl::Span<const int64_t> shape,
      const SharedTensorOptions& options = {});

  // A dense tensor in memory of this process with a copy of `values`, its
  // elements in row-major order: a span, a vector, an array, or a list.
  //
  //   Tensor::CopyOf(pixels, {480, 640, 3});
  //   Tensor::CopyOf({0.5f, 0.25f}, {2});
  //
  // Errors: Create()'s; kInvalidArgument if the shape has not as many elements.
  template <std::ranges::contiguous_range R>
  requires TensorElement<std::ranges::range_value_t<R>>
  static absl::StatusOr<Tensor> CopyOf(const R& values,
                                       absl::Span<const int64_t> shape) {
    return CopyOfValues(kDtypeOf<std::ranges::range_value_t<R>>,
                        std::as_bytes(std::span(values)), shape);
  }
  template <TensorElement T>
  static absl::StatusOr<Tensor> CopyOf(std::initializer_list<T> values,
                                       absl::Span<const int64_t> shape) {
    return CopyOf(std::span(values.begin(), values.size()), shape);
  }

  // A dense tensor in memory of this process, each element of which is `value`.
  //
  //   Tensor::Full({2, 3}, 0.5f);
  //
  // Errors: Create()'s.
  template <TensorElement T>
  static absl::StatusOr<Tensor> Full(absl::Span<const int64_t> shape,
                                     const T& value) {
    absl::StatusOr<Tensor> made =
        Create(kDtypeOf<T>, shape, MemoryInit::kUninitialized);
    if (!made.ok()) return made;
    if (absl::Status filled = made->Fill(value); !filled.ok()) return filled;
    return made;
  }

  // CreateShared() with a copy of `bytes`, the elements in row-major order: at
  // the speed of pwrite(), about twice that of CreateShared() and a copy.
  // `bytes` may be shared memory; peers that write it meanwhile cause a
  // mixture.
  //
  //   Tensor::CreateSharedFrom(kDtypeOf<float>, {2, 3},
  //                            std::as_bytes(std::span(values)));
  //
  // Errors: CreateShared()'s; kInvalidArgument if the size of `bytes` is not
  // that of the tensor, or they cannot be read
  // (with pages of the hugetlb pool that ends the process instead).
  static absl::StatusOr<Tensor> CreateSharedFrom(
      DLDataType dtype, absl::Span<const int64_t> shape,
      absl::Span<const std::byte> bytes,
      const SharedTensorOptions& options = {});

  // Errors: kInvalidArgument if the spec does not fit the storage.
  static absl::StatusOr<Tensor> FromSpec(TensorSpec spec,
                                         std::shared_ptr<Storage> storage);
  // Ends the program if the storage is smaller than the one of the check.
  Tensor(const FittedSpec& spec, std::shared_ptr<Storage> storage)
      : spec_(spec.spec()), storage_(std::move(storage)) {
    if (storage_ == nullptr || storage_->size_bytes() < spec.storage_bytes())
        [[unlikely]] {
      EndAsTooSmall();
    }
  }

  const TensorSpec& spec() const { return spec_; }
  // Null if default-constructed or moved from.
  const std::shared_ptr<Storage>& storage() const { return storage_; }
  bool is_shared() const { return storage_ && storage_->is_shared(); }
  bool writable() const { return !storage_ || storage_->writable(); }
  // Where the elements are; kCpuDevice for a tensor without storage.
  DLDevice device() const { return storage_ ? storage_->device() : kCpuDevice; }
  // Whether the CPU can access the elements: data(), at() and Fill() fail
  // otherwise.
  bool is_on_cpu() const { return !storage_ || storage_->is_on_cpu(); }

  // All elements of a dense tensor; valid until Share(), as long as a tensor of
  // this storage lives. `data<const float>()` reads, `data<float>()` writes,
  // `data<const std::byte>()` reads the bytes, whatever the dtype. Tensors of
  // bools are accessed as uint8_t.
  // Errors: kInvalidArgument if T is not the dtype's type; kFailedPrecondition
  // if the tensor is on a device that the CPU cannot access, not contiguous,
  // not writable here, not where a T may be (memory that was lent may be
  // aligned to less), or inherited by fork().
  template <TensorAccess T>
  absl::StatusOr<absl::Span<T>> data() const {
    const auto first = Dense(AccessAs<T>());
    if (!first.ok()) return first.status();
    return absl::Span<T>(reinterpret_cast<T*>(*first),
                         static_cast<size_t>(spec_.bytes()) / sizeof(T));
  }

  // One element, whatever the strides: `*tensor.at<float>({1, -1}).value() =
  // 2.5f`.
  // Errors: as data(); TensorSpec::ByteOffsetOf()'s.
  template <TensorAccess T>
  absl::StatusOr<T*> at(absl::Span<const int64_t> index) const {
    const auto element = At(AccessAs<T>(), index);
    if (!element.ok()) return element.status();
    return reinterpret_cast<T*>(*element);
  }

  // The address of the first element ([0, 0, ...]) of a tensor on a device, for
  // its kernels and its driver: to dereference it on the CPU is a fault. Null
  // without elements. spec().strides() says where the others are.
  // `device_data<float>()` is for kernels that write.
  // Errors: as data(), except that the tensor need not be contiguous;
  // kFailedPrecondition if it is on the CPU.
  template <TensorAccess T>
  absl::StatusOr<T*> device_data() const {
    const auto first = FirstOnDevice(AccessAs<T>());
    if (!first.ok()) return first.status();
    return reinterpret_cast<T*>(*first);
  }

  // Views: tensors of the same storage. Errors: those of TensorSpec's
  // functions.
  absl::StatusOr<Tensor> Slice(int dim, const SliceRange& range) const;
  absl::StatusOr<Tensor> Select(int dim, int64_t index) const;
  absl::StatusOr<Tensor> Transpose(int dim_a, int dim_b) const;
  absl::StatusOr<Tensor> Reshape(absl::Span<const int64_t> shape) const;

  // A dense copy in memory of this process, on the same device; of pinned
  // memory in ordinary memory.
  // Errors: To()'s.
  absl::StatusOr<Tensor> Clone() const;
  // This tensor itself if it is dense, else Clone().
  absl::StatusOr<Tensor> Contiguous() const;

  // This tensor itself if it is on the device, else a dense copy there, in
  // memory of this process. To(kCpuDevice) is the tensor itself if it is in
  // pinned memory.
  //
  //   TENON_ASSIGN_OR_RETURN(Tensor there, batch.To({kDLCUDA, 1}));
  //   TENON_ASSIGN_OR_RETURN(Tensor here, there.ToCpu());
  //
  // Errors: Storage::CreatePrivate()'s; DeviceMemoryOf()'s (device_memory.h),
  // such as kFailedPrecondition naming the target to link; the driver's;
  // kFailedPrecondition if inherited by fork().
  absl::StatusOr<Tensor> To(DLDevice device) const;
  absl::StatusOr<Tensor> ToCpu() const { return To(kCpuDevice); }

  // Sets all elements. Errors: as data(), except that it need not be dense.
  template <TensorElement T>
  absl::Status Fill(const T& value) const {
    return FillWith(AccessAs<T>(), &value);
  }

  // Copies the elements of a tensor of the same shape and dtype, whatever the
  // strides and the devices of both. The two may overlap: the result is as if
  // `other` had been copied first. Where several elements of this tensor share
  // an address, the last one in row-major order stays.
  //
  // From or to a device it returns when the elements have arrived. It waits for
  // no stream: kernels that write `other` have ended before the call. Elements
  // that are not dense may be copied by way of the CPU, or run by run.
  // Errors: kInvalidArgument if shape or dtype differ; kFailedPrecondition if
  // this tensor is read-only here, or one was inherited by fork(); To()'s if
  // one is on a device, after which some elements may have been copied;
  // Storage::CreatePrivate()'s if they overlap.
  absl::Status CopyFrom(const Tensor& other) const;

  // Moves the storage into a shared-writable segment, in place: all tensors
  // over it are shared then. Copies the bytes once, at the speed of pwrite();
  // CreateShared() and CreateSharedFrom() save that copy. No effect on a shared
  // tensor, of whatever kind. See Storage::MoveToSegment().
  absl::Status Share(const SegmentOptions& options = {});

  // "float32[2, 3] {1, 2, 3, 4, 5, 6}": the spec, the device if it is not the
  // CPU, and the first elements if the CPU can access them and they are
  // integers or ordinary floating-point numbers.
  std::string ToString() const;
  friend std::ostream& operator<<(std::ostream& out, const Tensor& tensor);

 private:
  struct Access {
    DLDataType dtype;
    bool any_dtype;
    size_t alignment;
    bool writes;
  };

  template <TensorAccess T>
  static constexpr Access AccessAs() {
    using Element = std::remove_const_t<T>;
    constexpr bool kBytes = std::same_as<Element, std::byte>;
    Access access = {{}, kBytes, alignof(T), !std::is_const_v<T>};
    if constexpr (!kBytes) access.dtype = kDtypeOf<Element>;
    return access;
  }

  [[noreturn, gnu::cold]] static void EndAsTooSmall();

  Tensor(const TensorSpec& spec, std::shared_ptr<Storage> storage)
      : spec_(spec), storage_(std::move(storage)) {}
  static absl::StatusOr<Tensor> CopyOfValues(DLDataType dtype,
                                             std::span<const std::byte> values,
                                             absl::Span<const int64_t> shape);
  absl::StatusOr<Tensor> ViewOf(absl::StatusOr<TensorSpec> spec) const;
  absl::Status CheckDtype(const Access& access) const;
  absl::StatusOr<std::byte*> Memory(bool writes) const;
  absl::StatusOr<std::byte*> Dense(const Access& access) const;
  absl::StatusOr<std::byte*> At(const Access& access,
                                absl::Span<const int64_t> index) const;
  absl::StatusOr<std::byte*> FirstOnDevice(const Access& access) const;
  absl::Status FillWith(const Access& access, const void* value) const;
  bool MayOverlap(const Tensor& other) const;
  // A dense tensor of the same shape, of undefined elements.
  absl::StatusOr<Tensor> DenseOn(const DLDevice& device) const;
  // Of which at least one is on a device.
  absl::Status CopyAcross(const Tensor& other) const;
  absl::Status CopyRuns(const Tensor& other) const;
  absl::StatusOr<Tensor> ToCpuWithGaps() const;

  TensorSpec spec_;
  std::shared_ptr<Storage> storage_;
};

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_TENSOR_H_
