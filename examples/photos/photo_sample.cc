// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/photo_sample.h"

#include <algorithm>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/examples/photos/jpeg.h"
#include "tenon/examples/photos/random_resized_crop.h"
#include "tenon/examples/photos/resample.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {

absl::StatusOr<PhotoSampler> PhotoSampler::Create(int size) {
  if (size < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "sample size ", size, " x ", size, "; want at least 1 x 1"));
  }
  return PhotoSampler(size);
}

absl::Status PhotoSampler::Make(absl::Span<const uint8_t> jpeg,
                                absl::FunctionRef<double()> uniform,
                                absl::Span<float> planes) {
  TENON_ASSIGN_OR_RETURN(const JpegSize original, decoder_.ReadSize(jpeg));
  const RandomCrop crop =
      RandomResizedCrop(original.width, original.height, uniform);
  // At this scale the shorter side of the crop has size_ pixels.
  const double min_scale =
      static_cast<double>(size_) / std::min(crop.width, crop.height);
  TENON_ASSIGN_OR_RETURN(const DecodedJpeg photo,
                         decoder_.Decode(jpeg, min_scale));
  const ImageBox box = {.left = crop.left * photo.scale,
                        .top = crop.top * photo.scale,
                        .width = crop.width * photo.scale,
                        .height = crop.height * photo.scale};
  return resampler_.Resample(
      photo.image, {.box = box, .size = size_, .flip = crop.flip}, planes);
}

}  // namespace tenon
