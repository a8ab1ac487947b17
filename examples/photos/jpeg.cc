// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/jpeg.h"

#include <turbojpeg.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/examples/photos/needed_scans.h"
#include "tenon/examples/photos/rgb_image.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// The accurate transform and smooth upsampling give the same pixels with and
// without SIMD, so on every machine.
constexpr int kFlags =
    TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS;

constexpr int kBytesPerPixel = 3;

// A handle serves one image, which costs less than a microsecond: in TurboJPEG
// 2.1, a handle does not recover from a bad header, and after a good image it
// decodes files without tables of their own with that image's tables.
struct DestroyHandle {
  void operator()(void* handle) const { tjDestroy(handle); }
};
using Handle = std::unique_ptr<void, DestroyHandle>;

absl::StatusOr<Handle> MakeHandle() {
  Handle handle(tjInitDecompress());
  if (handle == nullptr) {
    return absl::ResourceExhaustedError("no memory for a JPEG decoder");
  }
  return handle;
}

// libjpeg's message for its last failure.
absl::Status LastError(const Handle& handle, absl::Span<const uint8_t> jpeg) {
  const bool damaged = tjGetErrorCode(handle.get()) == TJERR_WARNING;
  return absl::Status(damaged ? absl::StatusCode::kDataLoss
                              : absl::StatusCode::kInvalidArgument,
                      absl::StrCat("JPEG image of ", jpeg.size(),
                                   " bytes: ", tjGetErrorStr2(handle.get())));
}

absl::StatusOr<JpegSize> ReadHeader(const Handle& handle,
                                    absl::Span<const uint8_t> jpeg,
                                    int64_t max_pixels) {
  if (jpeg.empty()) {
    return absl::InvalidArgumentError("JPEG image of 0 bytes");
  }
  JpegSize size;
  int subsampling = 0;
  int colour_space = 0;
  if (tjDecompressHeader3(handle.get(), jpeg.data(), jpeg.size(), &size.width,
                          &size.height, &subsampling, &colour_space) != 0) {
    return LastError(handle, jpeg);
  }
  if (colour_space == TJCS_CMYK || colour_space == TJCS_YCCK) {
    return absl::UnimplementedError(
        absl::StrCat("JPEG image of ", jpeg.size(),
                     " bytes: its colours are CMYK, not RGB or grey"));
  }
  if (int64_t{size.width} * size.height > max_pixels) {
    return absl::ResourceExhaustedError(
        absl::StrCat("JPEG image of ", jpeg.size(), " bytes: ", size.width,
                     " x ", size.height, " pixels are more than the ",
                     max_pixels, " allowed (JpegDecoderOptions::max_pixels)"));
  }
  return size;
}

// TurboJPEG infers the factor from the size of the result. Two factors can give
// an image smaller than this the same size.
constexpr int kSmallestScaled = 8;

// The smallest sufficient scale, as a fraction of 8.
tjscalingfactor ScalingFactor(const JpegSize& size, double min_scale) {
  if (std::max(size.width, size.height) >= kSmallestScaled) {
    for (const int eighths : {1, 2, 4}) {
      if (eighths >= 8 * min_scale) return {eighths, 8};
    }
  }
  return {8, 8};
}

}  // namespace

absl::StatusOr<JpegSize> JpegDecoder::ReadSize(
    absl::Span<const uint8_t> jpeg) const {
  TENON_ASSIGN_OR_RETURN(const Handle handle, MakeHandle());
  return ReadHeader(handle, jpeg, options_.max_pixels);
}

absl::Status JpegDecoder::Reserve(size_t size_bytes) {
  // A moved-from decoder has a capacity, but no pixels.
  if (pixels_ != nullptr && size_bytes <= capacity_) return absl::OkStatus();
  pixels_.reset();  // First, so that old and new memory do not exist together.
  pixels_.reset(new (std::nothrow) uint8_t[size_bytes]);
  if (pixels_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", size_bytes, " bytes of pixels"));
  }
  capacity_ = size_bytes;
  return absl::OkStatus();
}

absl::StatusOr<DecodedJpeg> JpegDecoder::Decode(absl::Span<const uint8_t> jpeg,
                                                double min_scale) {
  TENON_ASSIGN_OR_RETURN(const Handle handle, MakeHandle());
  TENON_ASSIGN_OR_RETURN(const JpegSize size,
                         ReadHeader(handle, jpeg, options_.max_pixels));
  const tjscalingfactor factor = ScalingFactor(size, min_scale);
  const int width = TJSCALED(size.width, factor);
  const int height = TJSCALED(size.height, factor);
  const size_t size_bytes =
      static_cast<size_t>(width) * height * kBytesPerPixel;
  TENON_RETURN_IF_ERROR(Reserve(size_bytes));
  const bool skips = factor.num == 1 && NeededScans(jpeg, needed_scans_);
  const absl::Span<const uint8_t> file = skips ? needed_scans_ : jpeg;
  if (tjDecompress2(handle.get(), file.data(), file.size(), pixels_.get(),
                    width, /*pitch=*/0, height, TJPF_RGB, kFlags) != 0) {
    return LastError(handle, jpeg);
  }
  return DecodedJpeg{
      .image = {.pixels = absl::MakeConstSpan(pixels_.get(), size_bytes),
                .width = width,
                .height = height},
      .scale = static_cast<double>(factor.num) / factor.denom};
}

}  // namespace tenon
