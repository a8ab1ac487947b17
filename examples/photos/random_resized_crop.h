// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RandomResizedCrop: chooses the part of a photograph for a training sample.
//
//   SampleRandom random(seed, epoch, position);
//   const RandomCrop crop = RandomResizedCrop(
//       width, height, [&] { return random.Uniform(); });
//
// The distribution is that of torchvision.transforms.RandomResizedCrop with its
// default parameters, followed by RandomHorizontalFlip(0.5): the augmentation
// of Szegedy et al., "Going Deeper with Convolutions" (2015), section 6. It
// computes a rectangle and touches no pixels.

#ifndef TENON_EXAMPLES_PHOTOS_RANDOM_RESIZED_CROP_H_
#define TENON_EXAMPLES_PHOTOS_RANDOM_RESIZED_CROP_H_

#include "absl/functional/function_ref.h"

namespace tenon {

// A rectangle of whole pixels, and whether to mirror it.
struct RandomCrop {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;
  bool flip = false;

  friend bool operator==(const RandomCrop&, const RandomCrop&) = default;
};

// A random part of an image of width x height pixels, both at least 1; the
// result is inside the image and at least 1 x 1.
//
// Each of up to 10 tries draws an area, uniform in 8 % to 100 % of the image's,
// and an aspect ratio, log-uniform in 3/4 to 4/3; the first rectangle that fits
// into the image gets a uniform position. If none fits, the result is the
// largest central rectangle with an aspect ratio in that range.
//
// `uniform` returns independent numbers, uniform in [0, 1). It is called twice
// for each try, twice for the position if a try fits, and once for the flip, in
// this order: the same numbers give the same crop.
RandomCrop RandomResizedCrop(int width, int height,
                             absl::FunctionRef<double()> uniform);

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_RANDOM_RESIZED_CROP_H_
