// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// NeededScans(): the scans of a progressive JPEG file that an image at an
// eighth of its size is made of.
//
// A progressive file has its coefficients in several scans, and a decoder reads
// all of them before it makes a pixel. At an eighth of the size, a pixel of
// most components is made of one coefficient, the mean of its block: the scans
// of the others, which are nearly all of a file, are of no use.

#ifndef TENON_EXAMPLES_PHOTOS_NEEDED_SCANS_H_
#define TENON_EXAMPLES_PHOTOS_NEEDED_SCANS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace tenon {

// Writes a JPEG file to `needed` that libjpeg-turbo decodes at 1/8 to the same
// pixels as `jpeg`: without the scans that this does not need, and with an
// empty one in their place, as missing coefficients would be guessed. False,
// with `needed` in any state, if there are no such scans, and for a file that
// is not a complete and well-formed progressive one, as far as it is read:
// decode `jpeg` then.
// Trust: the bytes may be anything. Corrupt data in scans that are left out is
//   not noticed.
bool NeededScans(absl::Span<const uint8_t> jpeg, std::vector<uint8_t>& needed);

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_NEEDED_SCANS_H_
