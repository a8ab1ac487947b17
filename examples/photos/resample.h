// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Resampler: cuts a rectangle out of an image, resizes it to a square and
// writes it as the input of a network: normalised float planes, red first.
//
//   Resampler resampler;  // One for each thread, used again and again.
//   std::vector<float> planes(3 * 224 * 224);
//   TENON_RETURN_IF_ERROR(resampler.Resample(
//       image, {.box = {0, 0, 640, 480}, .size = 224, .flip = true},
//       absl::MakeSpan(planes)));
//
// The filter is a triangle: bilinear interpolation where the image grows, and
// where it shrinks a weighted mean over an area two output pixels wide
// ("antialias=True" elsewhere).

#ifndef TENON_EXAMPLES_PHOTOS_RESAMPLE_H_
#define TENON_EXAMPLES_PHOTOS_RESAMPLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tenon/examples/photos/rgb_image.h"

namespace tenon {

// A rectangle of an image. Pixel (i, j) covers the points from (i, j) to
// (i + 1, j + 1), so the whole image is {0, 0, width, height}.
struct ImageBox {
  double left = 0;
  double top = 0;
  double width = 0;
  double height = 0;
};

// Of red, green and blue; 1 stands for 255.
struct ChannelStatistics {
  std::array<double, 3> mean;
  std::array<double, 3> stddev;
};

// Those of the training set of ImageNet (ILSVRC 2012), in wide use.
inline constexpr ChannelStatistics kImageNetStatistics = {
    .mean = {0.485, 0.456, 0.406}, .stddev = {0.229, 0.224, 0.225}};

struct ResampleOptions {
  // The part to show. Pixels outside do not count; pixels that it cuts do.
  ImageBox box;
  // Width and height of the result, in pixels.
  int size = 224;
  // Whether to mirror the result, left and right.
  bool flip = false;
  // A value v of 0 to 255 becomes (v / 255 - mean) / stddev.
  ChannelStatistics statistics = kImageNetStatistics;
};

// Ownership: owns its scratch memory and retains the largest so far.
// Threads: thread-compatible.
// Failure: after an error nothing has been written.
class Resampler {
 public:
  // Writes the red plane, the green and the blue, each `size` rows of `size`
  // values from the top left.
  //
  // The result depends only on the arguments. It differs from exact arithmetic
  // by less than 1/10 of a level of 255 where the box is at most 8 times as
  // large as the result. An area of one colour gives exactly that colour; a box
  // of whole pixels as large as the result gives these pixels.
  //
  // Errors: kInvalidArgument if the box is empty or not inside the image,
  // `size` is less than 1, a stddev is not positive, `planes` does not have 3 *
  // size * size values, or `image` lacks pixels.
  absl::Status Resample(const RgbImage& image, const ResampleOptions& options,
                        absl::Span<float> planes);

 private:
  // The input pixels of one output pixel, along one axis.
  struct Window {
    int first = 0;
    int count = 0;
    size_t weights = 0;  // Index of its first weight in Axis::weights.
  };
  struct Axis {
    void Plan(double start, double length, int size);

    // The pixels in any of the windows: begin to end - 1.
    int begin = 0;
    int end = 0;
    std::vector<Window> windows;
    std::vector<float> weights;
  };

  void ResampleColumns(const RgbImage& image, const Window& window);
  void ResampleRow(const ResampleOptions& options, float* planes) const;

  Axis x_;
  Axis y_;
  std::vector<float> row_;
};

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_RESAMPLE_H_
