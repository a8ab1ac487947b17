// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/random_resized_crop.h"

#include <cmath>
#include <optional>

#include "absl/functional/function_ref.h"
#include "tenon/shm/base/check.h"

namespace tenon {
namespace {

// The defaults of torchvision.transforms.RandomResizedCrop.
constexpr int kTries = 10;
constexpr double kMinArea = 0.08;
constexpr double kMaxArea = 1.0;
constexpr double kMinAspect = 3.0 / 4.0;
constexpr double kMaxAspect = 4.0 / 3.0;

// And of torchvision.transforms.RandomHorizontalFlip.
constexpr double kFlipProbability = 0.5;

struct Size {
  int width;
  int height;
};

double UniformBetween(double low, double high,
                      absl::FunctionRef<double()> uniform) {
  return low + (high - low) * uniform();
}

// Uniform in [0, count). Below 2^31 the product cannot round up to `count`.
int UniformBelow(int count, absl::FunctionRef<double()> uniform) {
  return static_cast<int>(count * uniform());
}

std::optional<Size> TryOnce(const Size& image,
                            absl::FunctionRef<double()> uniform) {
  const double image_area = static_cast<double>(image.width) * image.height;
  const double area = image_area * UniformBetween(kMinArea, kMaxArea, uniform);
  const double aspect = std::exp(
      UniformBetween(std::log(kMinAspect), std::log(kMaxAspect), uniform));
  const double width = std::nearbyint(std::sqrt(area * aspect));
  const double height = std::nearbyint(std::sqrt(area / aspect));
  if (width < 1 || width > image.width) return std::nullopt;
  if (height < 1 || height > image.height) return std::nullopt;
  return Size{static_cast<int>(width), static_cast<int>(height)};
}

// The largest part of the image with an aspect ratio in range.
Size LargestAllowed(const Size& image) {
  const double aspect = static_cast<double>(image.width) / image.height;
  Size largest = image;
  if (aspect < kMinAspect) {
    largest.height = static_cast<int>(std::nearbyint(image.width / kMinAspect));
  } else if (aspect > kMaxAspect) {
    largest.width = static_cast<int>(std::nearbyint(image.height * kMaxAspect));
  }
  return largest;
}

}  // namespace

RandomCrop RandomResizedCrop(int width, int height,
                             absl::FunctionRef<double()> uniform) {
  TENON_CHECK(width >= 1 && height >= 1, "an image without pixels");
  const Size image = {width, height};
  std::optional<Size> size;
  for (int i = 0; i < kTries && !size.has_value(); ++i) {
    size = TryOnce(image, uniform);
  }
  RandomCrop crop;
  if (size.has_value()) {
    crop.top = UniformBelow(height - size->height + 1, uniform);
    crop.left = UniformBelow(width - size->width + 1, uniform);
  } else {
    size = LargestAllowed(image);
    crop.top = (height - size->height) / 2;
    crop.left = (width - size->width) / 2;
  }
  crop.width = size->width;
  crop.height = size->height;
  crop.flip = uniform() < kFlipProbability;
  return crop;
}

}  // namespace tenon
