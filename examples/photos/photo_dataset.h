// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The dataset "photos": random crops of photographs, and their classes.
//
//   image: float32[3, size, size], normalised; label: int64
//
// Linking this target registers it; PhotoDatasetConfig() makes its config.

#ifndef TENON_EXAMPLES_PHOTOS_PHOTO_DATASET_H_
#define TENON_EXAMPLES_PHOTOS_PHOTO_DATASET_H_

#include <string>

#include "tenon/examples/photos/photo_folder.h"

namespace tenon {

inline constexpr char kPhotoDataset[] = "photos";

// The value of LoaderOptions::dataset_config for images of `image_size` x
// `image_size` pixels from `folder`. It contains the list of files, so that
// workers agree even if the folder changes.
std::string PhotoDatasetConfig(const PhotoFolder& folder, int image_size);

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_PHOTO_DATASET_H_
