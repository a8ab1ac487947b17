// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PhotoDataset: random crops of photographs, and their classes.
//
//   image: float32[3, size, size], normalised; label: int64

#ifndef TENON_EXAMPLES_PHOTOS_PHOTO_DATASET_H_
#define TENON_EXAMPLES_PHOTOS_PHOTO_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/examples/photos/photo_folder.h"
#include "tenon/examples/photos/photo_sample.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/arguments/argument.h"

// How a photograph is passed to a worker.
template <>
struct tenon::spawn::ArgumentTraits<tenon::Photo> {
  static std::string Name() { return "tenon::Photo"; }
  static absl::Status Pack(const Photo& photo, ArgumentWriter& to) {
    to.PutString(photo.path);
    to.Put(photo.label);
    return absl::OkStatus();
  }
  static absl::StatusOr<Photo> Unpack(ArgumentReader& from) {
    Photo photo;
    TENON_ASSIGN_OR_RETURN(photo.path, from.GetString());
    TENON_ASSIGN_OR_RETURN(photo.label, from.Get<int>());
    return photo;
  }
};

namespace tenon {

class PhotoDataset : public loader::Dataset {
 public:
  // Images of `image_size` x `image_size` pixels. `photos` is the list of files
  // and not their folder, so that workers agree even if the folder changes.
  // Errors: PhotoSampler::Create()'s.
  static absl::StatusOr<std::unique_ptr<PhotoDataset>> Create(
      std::vector<Photo> photos, int image_size);

  int64_t size() const override { return std::ssize(photos_); }
  loader::SampleSpec spec() const override;
  absl::Status Get(int64_t index, loader::SampleRandom& random,
                   loader::Sample& sample) override;

 private:
  PhotoDataset(std::vector<Photo> photos, int image_size, PhotoSampler sampler)
      : photos_(std::move(photos)),
        image_size_(image_size),
        sampler_(std::move(sampler)) {}

  absl::Status MakeImage(const std::string& path, loader::SampleRandom& random,
                         loader::Sample& sample);

  std::vector<Photo> photos_;
  int image_size_;
  PhotoSampler sampler_;
  std::vector<uint8_t> jpeg_;  // Kept for its memory.
};
TENON_LOADER_DATASET(PhotoDataset(std::vector<Photo>, int));

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_PHOTO_DATASET_H_
