// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/resample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/examples/photos/rgb_image.h"

namespace tenon {
namespace {

constexpr int kChannels = 3;

// Weights are multiples of 2^-16 that add up to 1. Multiplied by a value of 8
// bits they are exact in a float, and so is any sum of them: the first pass
// does not round, and one colour is unchanged by both passes.
constexpr double kWeightUnits = 65536;

// `out` = weight * `in`, and += likewise. The compiler vectorises these loops.
void SetWeighted(const uint8_t* in, float weight, size_t count,
                 float* __restrict out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = weight * static_cast<float>(in[i]);
  }
}
void AddWeighted(const uint8_t* in, float weight, size_t count,
                 float* __restrict out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] += weight * static_cast<float>(in[i]);
  }
}

absl::Status CheckBox(const RgbImage& image, const ImageBox& box) {
  // Written so that a NaN is outside. A box may be so small that its far side
  // equals its near side in floating point, which must be inside as well.
  const bool inside = box.left >= 0 && box.left < image.width &&
                      box.left + box.width <= image.width && box.top >= 0 &&
                      box.top < image.height &&
                      box.top + box.height <= image.height;
  if (inside && box.width > 0 && box.height > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a box of ", box.width, " x ", box.height, " at (", box.left,
                   ", ", box.top, ") is empty or not inside an image of ",
                   image.width, " x ", image.height, " pixels"));
}

absl::Status CheckArguments(const RgbImage& image,
                            const ResampleOptions& options,
                            absl::Span<float> planes) {
  if (image.width < 1 || image.height < 1 ||
      image.pixels.size() != image.row_bytes() * image.height) {
    return absl::InvalidArgumentError(
        absl::StrCat(image.pixels.size(), " bytes are not an image of ",
                     image.width, " x ", image.height, " pixels"));
  }
  const auto size = static_cast<size_t>(std::max(options.size, 0));
  if (size == 0 || planes.size() != kChannels * size * size) {
    return absl::InvalidArgumentError(
        absl::StrCat(planes.size(), " values are not 3 planes of ",
                     options.size, " x ", options.size));
  }
  for (const double stddev : options.statistics.stddev) {
    if (!(stddev > 0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("standard deviation ", stddev, " is not positive"));
    }
  }
  return CheckBox(image, options.box);
}

}  // namespace

// Output pixel i has its centre at `start` + (i + 1/2) * `length` / `size`; the
// weight of pixel j falls from there to zero at a distance of one output pixel,
// or of one input pixel if that is more.
void Resampler::Axis::Plan(double start, double length, int size) {
  const double step = length / size;
  const double radius = std::max(step, 1.0);
  begin = static_cast<int>(start);
  end = std::max(static_cast<int>(std::ceil(start + length)), begin + 1);
  windows.resize(size);
  weights.clear();
  for (int i = 0; i < size; ++i) {
    const double centre = start + (i + 0.5) * step;
    const auto distance = [&](int j) { return std::abs(j + 0.5 - centre); };
    const auto first = static_cast<int>(
        std::max<double>(begin, std::floor(centre - radius - 0.5) + 1));
    const auto last = static_cast<int>(
        std::min<double>(end, std::ceil(centre + radius - 0.5)));
    double total = 0;
    for (int j = first; j < last; ++j) total += radius - distance(j);
    windows[i] = {first, last - first, weights.size()};
    // Rounds the running sum, not the weights, so that it ends at 1.
    double sum = 0;
    double rounded = 0;
    for (int j = first; j < last; ++j) {
      sum += radius - distance(j);
      const double next = std::nearbyint(sum / total * kWeightUnits);
      weights.push_back(static_cast<float>((next - rounded) / kWeightUnits));
      rounded = next;
    }
  }
}

// Sets row_ to the weighted mean of the rows in the window, within x_.
void Resampler::ResampleColumns(const RgbImage& image, const Window& window) {
  const float* weights = &y_.weights[window.weights];
  const uint8_t* pixels = image.pixels.data() +
                          window.first * image.row_bytes() +
                          static_cast<size_t>(x_.begin) * kChannels;
  const size_t count = static_cast<size_t>(x_.end - x_.begin) * kChannels;
  SetWeighted(pixels, weights[0], count, row_.data());
  for (int i = 1; i < window.count; ++i) {
    AddWeighted(pixels + i * image.row_bytes(), weights[i], count, row_.data());
  }
}

// Writes one row of each plane, from row_.
void Resampler::ResampleRow(const ResampleOptions& options,
                            float* planes) const {
  float scale[kChannels];
  float offset[kChannels];
  for (int c = 0; c < kChannels; ++c) {
    const double stddev = options.statistics.stddev[c];
    scale[c] = static_cast<float>(1 / (255 * stddev));
    offset[c] = static_cast<float>(-options.statistics.mean[c] / stddev);
  }
  const size_t plane = static_cast<size_t>(options.size) * options.size;
  for (int i = 0; i < options.size; ++i) {
    const Window& window = x_.windows[i];
    const float* weights = &x_.weights[window.weights];
    const float* pixel = &row_[(window.first - x_.begin) * kChannels];
    float red = 0;
    float green = 0;
    float blue = 0;
    for (int j = 0; j < window.count; ++j, pixel += kChannels) {
      red += weights[j] * pixel[0];
      green += weights[j] * pixel[1];
      blue += weights[j] * pixel[2];
    }
    float* out = planes + (options.flip ? options.size - 1 - i : i);
    out[0] = red * scale[0] + offset[0];
    out[plane] = green * scale[1] + offset[1];
    out[2 * plane] = blue * scale[2] + offset[2];
  }
}

absl::Status Resampler::Resample(const RgbImage& image,
                                 const ResampleOptions& options,
                                 absl::Span<float> planes) {
  absl::Status status = CheckArguments(image, options, planes);
  if (!status.ok()) return status;
  x_.Plan(options.box.left, options.box.width, options.size);
  y_.Plan(options.box.top, options.box.height, options.size);
  row_.resize(static_cast<size_t>(x_.end - x_.begin) * kChannels);
  for (int i = 0; i < options.size; ++i) {
    ResampleColumns(image, y_.windows[i]);
    ResampleRow(options, planes.data() + static_cast<size_t>(i) * options.size);
  }
  return absl::OkStatus();
}

}  // namespace tenon
