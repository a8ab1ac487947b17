// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// JpegDecoder: JPEG bytes to RGB pixels, at a reduced size if that is
// sufficient.
//
//   JpegDecoder decoder;  // One for each thread, used again and again.
//   TENON_ASSIGN_OR_RETURN(const JpegSize size, decoder.ReadSize(bytes));
//   // The smallest decoded image in which 500 of its columns are still 224.
//   TENON_ASSIGN_OR_RETURN(const DecodedJpeg photo,
//                          decoder.Decode(bytes, 224.0 / 500));
//
// It uses libjpeg-turbo's TurboJPEG API. It neither rotates the image by Exif's
// orientation, nor converts it from its colour profile; training sets are used
// without either.

#ifndef TENON_EXAMPLES_PHOTOS_JPEG_H_
#define TENON_EXAMPLES_PHOTOS_JPEG_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/examples/photos/rgb_image.h"

namespace tenon {

// In pixels.
struct JpegSize {
  int width = 0;
  int height = 0;
};

struct DecodedJpeg {
  // The whole photograph. Each side is the original's times `scale`, rounded
  // up; the original's point (x, y) is at (x * scale, y * scale).
  RgbImage image;
  double scale = 1;  // 1/8, 1/4, 1/2 or 1.
};

struct JpegDecoderOptions {
  // Larger images are rejected before memory is allocated for their pixels. An
  // image takes 3 bytes a pixel, a progressive one about 6 bytes more.
  int64_t max_pixels = int64_t{1} << 28;
};

// Ownership: owns the pixels of the last image, and retains the memory of the
//   largest so far. A moved-from decoder is as good as a new one.
// Threads: thread-compatible: one decoder for each thread.
// Trust: the bytes may be anything, and the result depends only on them.
//   Warnings of libjpeg-turbo (a truncated file, corrupt data) are errors here,
//   and so are more than 500 scans; but scans of a progressive file that scale
//   1/8 does not need are skipped, whatever is in them. Decoding takes time in proportion to the
//   declared pixels times the scans.
// Failure: after an error the decoder is as good as new, and the pixels of the
//   last image are gone.
class JpegDecoder {
 public:
  explicit JpegDecoder(const JpegDecoderOptions& options = JpegDecoderOptions())
      : options_(options) {}

  // The size of the photograph, from its header.
  //
  // Errors: kInvalidArgument if `jpeg` is not a JPEG image, or uses a feature
  // that libjpeg-turbo does not support; kDataLoss if the header is corrupt;
  // kUnimplemented for a CMYK image; kResourceExhausted if it has more than
  // max_pixels, or if memory is not available.
  absl::StatusOr<JpegSize> ReadSize(absl::Span<const uint8_t> jpeg) const;

  // Decodes the photograph, also a grey one, at the smallest scale that is at
  // least `min_scale`; above 1, at scale 1. The pixels are valid until the next
  // call of Decode(), and move with the decoder.
  //
  // The scales are powers of two: libjpeg-turbo has SIMD code for those, and
  // without it 3/8 takes longer than 4/8, and 5/8 longer than 8/8.
  //
  // Errors: those of ReadSize(); kDataLoss if the file is truncated or its data
  // corrupt; kInvalidArgument if libjpeg-turbo fails for another reason.
  absl::StatusOr<DecodedJpeg> Decode(absl::Span<const uint8_t> jpeg,
                                     double min_scale);

 private:
  absl::Status Reserve(size_t size_bytes);

  JpegDecoderOptions options_;
  std::vector<uint8_t> needed_scans_;  // Kept for its memory.
  // A vector would write zeros that are never read.
  std::unique_ptr<uint8_t[]> pixels_;
  size_t capacity_ = 0;  // In bytes.
};

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_JPEG_H_
