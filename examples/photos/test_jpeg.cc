// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/test_jpeg.h"

#include <turbojpeg.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <vector>

#include "tenon/shm/base/check.h"

namespace tenon {
namespace {

struct Encoding {
  int subsampling;
  int quality;
  int flags;
};

Encoding EncodingOf(TestJpegKind kind) {
  switch (kind) {
    case TestJpegKind::kBaseline:
      return {TJSAMP_420, 90, TJFLAG_ACCURATEDCT};
    case TestJpegKind::kFine:
      return {TJSAMP_444, 100, TJFLAG_ACCURATEDCT};
    case TestJpegKind::kProgressive:
      return {TJSAMP_420, 90, TJFLAG_ACCURATEDCT | TJFLAG_PROGRESSIVE};
    case TestJpegKind::kProgressive422:
      return {TJSAMP_422, 90, TJFLAG_ACCURATEDCT | TJFLAG_PROGRESSIVE};
    case TestJpegKind::kProgressiveFine:
      return {TJSAMP_444, 100, TJFLAG_ACCURATEDCT | TJFLAG_PROGRESSIVE};
    case TestJpegKind::kProgressiveGrey:
      return {TJSAMP_GRAY, 90, TJFLAG_ACCURATEDCT | TJFLAG_PROGRESSIVE};
    case TestJpegKind::kGrey:
      return {TJSAMP_GRAY, 90, TJFLAG_ACCURATEDCT};
    case TestJpegKind::kCmyk:
      return {TJSAMP_444, 90, TJFLAG_ACCURATEDCT};
  }
  std::abort();  // All kinds are handled above.
}

// One ink more than there are colours.
std::vector<uint8_t> WithBlack(const std::vector<uint8_t>& rgb) {
  std::vector<uint8_t> cmyk;
  for (size_t i = 0; i < rgb.size(); ++i) {
    cmyk.push_back(rgb[i]);
    if (i % 3 == 2) cmyk.push_back(255);
  }
  return cmyk;
}

}  // namespace

TestImage MakeTestImage(int width, int height) {
  TestImage image = MakeSlopes(width, height);
  std::mt19937 random(20260101);  // The standard defines its output.
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      uint8_t* pixel = &image.pixels[3 * (static_cast<size_t>(y) * width + x)];
      const bool on_disc = (x - width / 2) * (x - width / 2) +
                               (y - height / 3) * (y - height / 3) <
                           width * height / 16;
      if (on_disc) pixel[0] = 250;
      pixel[1] = static_cast<uint8_t>(pixel[1] / 2 + random() % 64);
      pixel[2] = static_cast<uint8_t>((x / 16 + y / 16) % 2 == 0 ? 40 : 200);
    }
  }
  return image;
}

TestImage MakeSlopes(int width, int height) {
  TestImage image = {.width = width, .height = height, .pixels = {}};
  image.pixels.reserve(3 * static_cast<size_t>(width) * height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      image.pixels.push_back(static_cast<uint8_t>((2 * x + 1) * 128 / width));
      image.pixels.push_back(static_cast<uint8_t>((2 * y + 1) * 128 / height));
      image.pixels.push_back(100);
    }
  }
  return image;
}

std::vector<uint8_t> MakeTestJpeg(const TestImage& image, TestJpegKind kind) {
  const Encoding encoding = EncodingOf(kind);
  const bool is_cmyk = kind == TestJpegKind::kCmyk;
  const std::vector<uint8_t> pixels =
      is_cmyk ? WithBlack(image.pixels) : image.pixels;
  const tjhandle handle = tjInitCompress();
  TENON_CHECK(handle != nullptr, "tjInitCompress");
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): TurboJPEG's type.
  const int result =
      tjCompress2(handle, pixels.data(), image.width, /*pitch=*/0, image.height,
                  is_cmyk ? TJPF_CMYK : TJPF_RGB, &bytes, &size,
                  encoding.subsampling, encoding.quality, encoding.flags);
  TENON_CHECK(result == 0, tjGetErrorStr2(handle));
  std::vector<uint8_t> jpeg(bytes, bytes + size);
  tjFree(bytes);
  tjDestroy(handle);
  return jpeg;
}

}  // namespace tenon
