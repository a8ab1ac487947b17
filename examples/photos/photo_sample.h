// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PhotoSampler: from the bytes of a JPEG file to a training sample.
//
//   TENON_ASSIGN_OR_RETURN(PhotoSampler sampler, PhotoSampler::Create(224));
//   SampleRandom random(seed, epoch, position);
//   TENON_RETURN_IF_ERROR(sampler.Make(
//       bytes, [&] { return random.Uniform(); }, planes));
//
// It draws a crop (random_resized_crop.h), decodes the photograph no larger
// than the crop needs (jpeg.h), and resizes and normalises it with ImageNet's
// statistics (resample.h). It reads no files.

#ifndef TENON_EXAMPLES_PHOTOS_PHOTO_SAMPLE_H_
#define TENON_EXAMPLES_PHOTOS_PHOTO_SAMPLE_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/examples/photos/jpeg.h"
#include "tenon/examples/photos/resample.h"

namespace tenon {

// Ownership: owns the decoder and scratch memory, which grows to the needs of
//   the largest photograph. A moved-from sampler is as good as a new one.
// Threads: thread-compatible: one sampler for each thread.
// Trust: the bytes may be anything; see JpegDecoder.
// Failure: after an error the sampler is as good as new.
class PhotoSampler {
 public:
  // A sampler whose samples have size x size pixels.
  //
  // Errors: kInvalidArgument if `size` is less than 1.
  static absl::StatusOr<PhotoSampler> Create(int size);

  // Writes the red, green and blue plane of a sample to `planes`, which has 3 *
  // size * size values. The sample depends on `jpeg`, the size and the results
  // of `uniform` (see RandomResizedCrop), not on earlier samples.
  //
  // Errors: those of JpegDecoder::Decode(); kInvalidArgument if `planes` has
  // another length. After an error nothing has been written.
  absl::Status Make(absl::Span<const uint8_t> jpeg,
                    absl::FunctionRef<double()> uniform,
                    absl::Span<float> planes);

 private:
  explicit PhotoSampler(int size) : size_(size) {}

  JpegDecoder decoder_;
  Resampler resampler_;
  int size_;
};

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_PHOTO_SAMPLE_H_
