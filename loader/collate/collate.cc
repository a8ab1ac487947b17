// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/collate/collate.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {
namespace {

// Checks that all samples have the dtype of the first one, and its extents from
// dimension `first` on; with first = 1 they have that dimension 0.
absl::Status CheckAlike(absl::string_view call,
                        absl::Span<const Tensor> samples, size_t first) {
  if (samples.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": there are no samples"));
  }
  const TensorSpec& want = samples[0].spec();
  if (want.shape().size() < first) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": sample 0 is ", want.ToString(),
                     "; it needs a dimension of its length"));
  }
  for (size_t i = 1; i < samples.size(); ++i) {
    const TensorSpec& spec = samples[i].spec();
    if (SameDtype(spec.dtype(), want.dtype()) && spec.rank() == want.rank() &&
        spec.shape().subspan(first) == want.shape().subspan(first)) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(
        call, ": sample ", i, " is ", spec.ToString(), ", and sample 0 is ",
        want.ToString(), "; ",
        first == 0 ? "they must have the same dtype and shape"
                   : "they may differ in their first extent only"));
  }
  return absl::OkStatus();
}

int64_t LengthOf(const Tensor& sample) { return sample.spec().shape()[0]; }

// `leading`, and the extents of a sample from its second one on.
std::vector<int64_t> ShapeOf(std::vector<int64_t> leading,
                             const Tensor& sample) {
  const auto rest = sample.spec().shape().subspan(1);
  leading.insert(leading.end(), rest.begin(), rest.end());
  return leading;
}

// Copies `sample` to `row` from `start` on along dimension 0.
absl::Status CopyTo(const Tensor& row, int64_t start, const Tensor& sample) {
  TENON_ASSIGN_OR_RETURN(
      const Tensor part,
      row.Slice(0, {.start = start, .stop = start + LengthOf(sample)}));
  return part.CopyFrom(sample);
}

// Where Pack() puts a sequence.
struct Place {
  int64_t row;
  int64_t start;
  int32_t segment;
};

absl::StatusOr<std::vector<Place>> PlacesOf(absl::Span<const Tensor> samples,
                                            int64_t row_length) {
  std::vector<Place> places;
  int64_t row = 0;
  int64_t used = 0;
  int32_t segment = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const int64_t length = LengthOf(samples[i]);
    if (length > row_length) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Pack(): sample ", i, " is ", samples[i].spec().ToString(),
          ", longer than a row of ", row_length));
    }
    if (length > row_length - used) {
      ++row;
      used = 0;
      segment = 0;
    }
    places.push_back({row, used, ++segment});
    used += length;
  }
  return places;
}

}  // namespace

absl::StatusOr<Tensor> AllocatePrivate(DLDataType dtype,
                                       absl::Span<const int64_t> shape) {
  return Tensor::Create(dtype, shape);
}

absl::StatusOr<Tensor> Stack(absl::Span<const Tensor> samples,
                             TensorAllocator allocate) {
  TENON_RETURN_IF_ERROR(CheckAlike("Stack()", samples, 0));
  const TensorSpec& spec = samples[0].spec();
  std::vector<int64_t> shape = {static_cast<int64_t>(samples.size())};
  shape.insert(shape.end(), spec.shape().begin(), spec.shape().end());
  TENON_ASSIGN_OR_RETURN(Tensor batch, allocate(spec.dtype(), shape));
  for (size_t i = 0; i < samples.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(const Tensor row,
                           batch.Select(0, static_cast<int64_t>(i)));
    TENON_RETURN_IF_ERROR(row.CopyFrom(samples[i]));
  }
  return batch;
}

absl::StatusOr<PaddedBatch> PadToLongestBy(absl::Span<const Tensor> samples,
                                           PadFunction pad,
                                           TensorAllocator allocate) {
  TENON_RETURN_IF_ERROR(CheckAlike("PadToLongest()", samples, 1));
  const auto count = static_cast<int64_t>(samples.size());
  int64_t longest = 0;
  for (const Tensor& sample : samples) {
    longest = std::max(longest, LengthOf(sample));
  }
  PaddedBatch batch;
  TENON_ASSIGN_OR_RETURN(batch.values,
                         allocate(samples[0].spec().dtype(),
                                  ShapeOf({count, longest}, samples[0])));
  TENON_ASSIGN_OR_RETURN(batch.lengths, allocate(kDtypeOf<int64_t>, {count}));
  TENON_ASSIGN_OR_RETURN(const absl::Span<int64_t> lengths,
                         batch.lengths.data<int64_t>());
  for (int64_t i = 0; i < count; ++i) {
    const Tensor& sample = samples[static_cast<size_t>(i)];
    const int64_t length = LengthOf(sample);
    lengths[static_cast<size_t>(i)] = length;
    TENON_ASSIGN_OR_RETURN(const Tensor row, batch.values.Select(0, i));
    TENON_RETURN_IF_ERROR(CopyTo(row, 0, sample));
    TENON_ASSIGN_OR_RETURN(const Tensor rest, row.Slice(0, {.start = length}));
    TENON_RETURN_IF_ERROR(pad(rest));
  }
  return batch;
}

absl::StatusOr<RaggedBatch> Concatenate(absl::Span<const Tensor> samples,
                                        TensorAllocator allocate) {
  TENON_RETURN_IF_ERROR(CheckAlike("Concatenate()", samples, 1));
  const auto count = static_cast<int64_t>(samples.size());
  int64_t total = 0;
  for (const Tensor& sample : samples) total += LengthOf(sample);
  RaggedBatch batch;
  TENON_ASSIGN_OR_RETURN(batch.values, allocate(samples[0].spec().dtype(),
                                                ShapeOf({total}, samples[0])));
  TENON_ASSIGN_OR_RETURN(batch.offsets,
                         allocate(kDtypeOf<int64_t>, {count + 1}));
  TENON_ASSIGN_OR_RETURN(const absl::Span<int64_t> offsets,
                         batch.offsets.data<int64_t>());
  offsets[0] = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    offsets[i + 1] = offsets[i] + LengthOf(samples[i]);
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    TENON_RETURN_IF_ERROR(CopyTo(batch.values, offsets[i], samples[i]));
  }
  return batch;
}

absl::StatusOr<PackedBatch> PackBy(absl::Span<const Tensor> samples,
                                   int64_t row_length, PadFunction pad,
                                   TensorAllocator allocate) {
  TENON_RETURN_IF_ERROR(CheckAlike("Pack()", samples, 1));
  if (row_length < 1 || row_length > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Pack(): row_length is ", row_length, "; it must be 1 to ",
                     std::numeric_limits<int32_t>::max()));
  }
  TENON_ASSIGN_OR_RETURN(const std::vector<Place> places,
                         PlacesOf(samples, row_length));
  const int64_t rows = places.back().row + 1;
  PackedBatch batch;
  TENON_ASSIGN_OR_RETURN(batch.values,
                         allocate(samples[0].spec().dtype(),
                                  ShapeOf({rows, row_length}, samples[0])));
  TENON_ASSIGN_OR_RETURN(batch.segments,
                         allocate(kDtypeOf<int32_t>, {rows, row_length}));
  TENON_ASSIGN_OR_RETURN(batch.positions,
                         allocate(kDtypeOf<int32_t>, {rows, row_length}));
  TENON_ASSIGN_OR_RETURN(const absl::Span<int32_t> segments,
                         batch.segments.data<int32_t>());
  TENON_ASSIGN_OR_RETURN(const absl::Span<int32_t> positions,
                         batch.positions.data<int32_t>());
  std::fill(segments.begin(), segments.end(), 0);
  std::fill(positions.begin(), positions.end(), 0);
  for (size_t i = 0; i < samples.size(); ++i) {
    const Place& place = places[i];
    const int64_t length = LengthOf(samples[i]);
    TENON_ASSIGN_OR_RETURN(const Tensor row, batch.values.Select(0, place.row));
    TENON_RETURN_IF_ERROR(CopyTo(row, place.start, samples[i]));
    const int64_t first = place.row * row_length + place.start;
    std::fill_n(segments.begin() + first, length, place.segment);
    std::iota(positions.begin() + first, positions.begin() + first + length, 0);
    const bool last = i + 1 == samples.size() || places[i + 1].row != place.row;
    if (!last) continue;
    TENON_ASSIGN_OR_RETURN(const Tensor rest,
                           row.Slice(0, {.start = place.start + length}));
    TENON_RETURN_IF_ERROR(pad(rest));
  }
  return batch;
}

}  // namespace tenon::loader
