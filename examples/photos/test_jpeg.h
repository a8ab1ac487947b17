// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// JPEG images that tests and benchmarks make as they go: no test depends on
// photographs that are installed, or on files in the repository.

#ifndef TENON_EXAMPLES_PHOTOS_TEST_JPEG_H_
#define TENON_EXAMPLES_PHOTOS_TEST_JPEG_H_

#include <cstdint>
#include <vector>

#include "tenon/examples/photos/rgb_image.h"

namespace tenon {

// Pixels that own their memory.
struct TestImage {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> pixels;

  RgbImage view() const {
    return {.pixels = pixels, .width = width, .height = height};
  }
};

// A picture with slopes, edges and some noise; the same for the same size.
TestImage MakeTestImage(int width, int height);

// Slopes only: red grows to the right, green downwards, blue is even.
TestImage MakeSlopes(int width, int height);

enum class TestJpegKind {
  kBaseline,     // 4:2:0, as cameras and ImageNet have it.
  kFine,         // Chroma at full size and quality 100.
  kProgressive,  // 4:2:0, in several scans.
  kGrey,
  kCmyk,
};

// Encodes at quality 90 (kFine: 100). Aborts if libjpeg-turbo cannot.
std::vector<uint8_t> MakeTestJpeg(const TestImage& image, TestJpegKind kind);

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_TEST_JPEG_H_
