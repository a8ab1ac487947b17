// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RgbImage: a view of the pixels of a colour image; it owns none.

#ifndef TENON_EXAMPLES_PHOTOS_RGB_IMAGE_H_
#define TENON_EXAMPLES_PHOTOS_RGB_IMAGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace tenon {

// Row after row from the top, pixel after pixel from the left, red, green and
// blue in one byte each, with no gaps: pixels.size() == 3 * width * height.
struct RgbImage {
  absl::Span<const uint8_t> pixels;
  int width = 0;
  int height = 0;

  size_t row_bytes() const { return 3 * static_cast<size_t>(width); }
};

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_RGB_IMAGE_H_
