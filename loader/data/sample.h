// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Sample: the place of one sample in a batch, to be written by a dataset.
//
//   absl::Status Get(int64_t index, SampleRandom& random, Sample& sample) {
//     TENON_ASSIGN_OR_RETURN(absl::Span<float> noise,
//                            sample.data<float>("noise"));
//     for (float& value : noise) value = float(random.Uniform());
//     return sample.Set("square", index * index);
//   }
//
// A field whose shape differs from sample to sample is allocated first:
//
//   absl::Status GetRange(int64_t count, Sample& sample) {
//     TENON_ASSIGN_OR_RETURN(absl::Span<int64_t> ids,
//                            sample.Allocate<int64_t>("ids", {count}));
//     std::iota(ids.begin(), ids.end(), 0);
//     return sample.SetText("file", "0001.jpeg");
//   }

#ifndef TENON_LOADER_DATA_SAMPLE_H_
#define TENON_LOADER_DATA_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::loader {

// Consecutive samples of a batch, in its memory. Bytes are undefined until they
// are written.
// Ownership: a view; valid during the call that it is passed to.
// Threads: thread-compatible. Views of different samples may be used by
//   different threads.
class SampleSpan {
 public:
  // For loaders: samples [first, first + size) of a batch whose memory begins
  // at `batch`. Fields whose shape differs are in `scratch`, which may be null
  // if there are none.
  SampleSpan(const BatchLayout& layout, std::byte* batch, int64_t first,
             int64_t size, SampleScratch* scratch = nullptr)
      : layout_(&layout),
        batch_(batch),
        first_(first),
        size_(size),
        fields_(static_cast<int>(layout.fields().size())),
        scratch_(scratch) {}

  // The number of samples.
  int64_t size() const { return size_; }
  // Sample i of [0, size()); an empty span for any other i.
  SampleSpan sample(int64_t i) const {
    SampleSpan sample = *this;
    const bool is_there = i >= 0 && i < size_;
    sample.first_ += is_there ? i : 0;
    sample.size_ = is_there ? 1 : 0;
    return sample;
  }
  // The same samples with fields [first, first + count) alone, numbered from 0.
  // There must be such fields.
  SampleSpan WithFields(int first, int count) const {
    SampleSpan part = *this;
    part.first_field_ += first;
    part.fields_ = count;
    return part;
  }

  // The elements of a field, by name or number, of all samples, one after the
  // other; std::byte accesses the bytes of any dtype, uint8_t those of bools.
  // Errors: kNotFound, listing the fields; kInvalidArgument if T is not the
  // type of the field, naming both; for a field whose shape differs
  // kFailedPrecondition before Allocate(), and unless size() is 1.
  template <TensorAccess T>
  absl::StatusOr<absl::Span<T>> data(absl::string_view name) const {
    const absl::StatusOr<int> f = Find(name);
    if (!f.ok()) return InCall("Sample::data()", f.status());
    return data<T>(*f - first_field_);
  }
  template <TensorAccess T>
  absl::StatusOr<absl::Span<T>> data(int f) const {
    if (f < 0 || f >= fields_) return InCall("Sample::data()", NoField(f));
    const BatchLayout::Field& field =
        layout_->fields()[static_cast<size_t>(first_field_) +
                          static_cast<size_t>(f)];
    if constexpr (!std::is_same_v<T, std::byte>) {
      const absl::Status same = CheckDtype(field, kDtypeOf<T>);
      if (!same.ok()) return InCall("Sample::data()", same);
    }
    if (field.varying >= 0) [[unlikely]]
      return ElementsOf<T>(Scratch(first_field_ + f));
    std::byte* const bytes =
        batch_ + field.offset + first_ * field.sample_bytes;
    return absl::Span<T>(
        reinterpret_cast<T*>(bytes),
        static_cast<size_t>(size_ * field.sample_bytes) / sizeof(T));
  }

  // The elements of a field of one sample, of shape `shape`, to be written. A
  // field of one shape has its place in the batch. Memory for any other field
  // is allocated; the span of an earlier call for it is invalid from then on.
  // Errors: kNotFound and kInvalidArgument as data(); kInvalidArgument if the
  // field cannot have that shape, naming both; kFailedPrecondition unless
  // size() is 1; kResourceExhausted if this process has no memory for it.
  template <TensorAccess T, typename NameOrNumber>
  absl::StatusOr<absl::Span<T>> Allocate(
      NameOrNumber field, absl::Span<const int64_t> shape) const {
    const absl::StatusOr<int> f = Find(field);
    if (!f.ok()) return InCall("Sample::Allocate()", f.status());
    if constexpr (!std::is_same_v<T, std::byte>) {
      const absl::Status same =
          CheckDtype(layout_->fields()[static_cast<size_t>(*f)], kDtypeOf<T>);
      if (!same.ok()) return InCall("Sample::Allocate()", same);
    }
    return ElementsOf<T>(Place(*f, shape));
  }

  // Copies `text` to a field of SampleSpec::AddText(). Errors: Allocate()'s;
  // kInvalidArgument for a field of another kind.
  template <typename NameOrNumber>
  absl::Status SetText(NameOrNumber field, absl::string_view text) const {
    const absl::StatusOr<int> f = Find(field);
    if (!f.ok()) return InCall("Sample::SetText()", f.status());
    return CopyText(*f, text);
  }

  // Copies field f of the sample `from` to field f of this one, for all f.
  // Errors: kFailedPrecondition unless both have one sample and the same number
  // of fields, and if `from` lacks a field whose shape differs;
  // kInvalidArgument if two fields differ in dtype, or this one cannot have
  // that shape; kResourceExhausted as Allocate().
  absl::Status CopyFrom(const SampleSpan& from) const;

  // Writes a field that has one element in these samples: a scalar of one
  // sample. Errors: data()'s; kInvalidArgument for any other number of
  // elements.
  template <TensorElement T, typename NameOrNumber>
  absl::Status Set(NameOrNumber field, const T& value) const {
    const absl::StatusOr<absl::Span<T>> elements = data<T>(field);
    if (!elements.ok()) return elements.status();
    if (elements->size() != 1) return NotOneElement(elements->size());
    (*elements)[0] = value;
    return absl::OkStatus();
  }

 private:
  // The number in the layout of a field of this part.
  absl::StatusOr<int> Find(absl::string_view name) const;
  absl::StatusOr<int> Find(int f) const;
  template <typename T>
  static absl::StatusOr<absl::Span<T>> ElementsOf(
      const absl::StatusOr<std::span<std::byte>>& bytes) {
    if (!bytes.ok()) return bytes.status();
    return absl::Span<T>(reinterpret_cast<T*>(bytes->data()),
                         bytes->size() / sizeof(T));
  }
  // The memory that Allocate() has allocated.
  absl::StatusOr<std::span<std::byte>> Scratch(int f) const;
  absl::StatusOr<std::span<std::byte>> Place(
      int f, absl::Span<const int64_t> shape) const;
  absl::Status CopyText(int f, absl::string_view text) const;

  absl::Status CopyField(int f, const SampleSpan& from) const;

  static absl::Status InCall(absl::string_view call,
                             const absl::Status& status);
  absl::Status NoField(int f) const;
  absl::Status NotInPart(absl::string_view name) const;
  std::string FieldNames() const;
  static absl::Status WrongDtype(const BatchLayout::Field& field,
                                 DLDataType used);
  static absl::Status NotOneElement(size_t elements);

  static absl::Status CheckDtype(const BatchLayout::Field& field,
                                 DLDataType used) {
    const DLDataType dtype = field.tensor.spec().dtype();
    if (SameDtype(dtype, used)) [[likely]]
      return absl::OkStatus();
    if (dtype.code == kBoolCode && used.code == kDLUInt &&
        dtype.bits == used.bits && dtype.lanes == used.lanes) {
      return absl::OkStatus();
    }
    return WrongDtype(field, used);
  }

  const BatchLayout* layout_;
  std::byte* batch_;
  int64_t first_;
  int64_t size_;
  int first_field_ = 0;
  int fields_;
  SampleScratch* scratch_;
};

using Sample = SampleSpan;

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_SAMPLE_H_
