// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/photo_dataset.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/examples/photos/file_bytes.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {

absl::StatusOr<std::unique_ptr<PhotoDataset>> PhotoDataset::Create(
    std::vector<Photo> photos, int image_size) {
  TENON_ASSIGN_OR_RETURN(PhotoSampler sampler,
                         PhotoSampler::Create(image_size));
  return absl::WrapUnique(
      new PhotoDataset(std::move(photos), image_size, std::move(sampler)));
}

loader::SampleSpec PhotoDataset::spec() const {
  return loader::SampleSpec()
      .Add<float>("image", {3, image_size_, image_size_})
      .Add<int64_t>("label");
}

absl::Status PhotoDataset::Get(int64_t index, loader::SampleRandom& random,
                               loader::Sample& sample) {
  const Photo& photo = photos_[static_cast<size_t>(index)];
  const absl::Status made = MakeImage(photo.path, random, sample);
  if (!made.ok()) {
    return absl::Status(made.code(),
                        absl::StrCat(photo.path, ": ", made.message()));
  }
  return sample.Set("label", int64_t{photo.label});
}

absl::Status PhotoDataset::MakeImage(const std::string& path,
                                     loader::SampleRandom& random,
                                     loader::Sample& sample) {
  TENON_RETURN_IF_ERROR(ReadFile(path, jpeg_));
  TENON_ASSIGN_OR_RETURN(const absl::Span<float> image,
                         sample.data<float>("image"));
  return sampler_.Make(
      jpeg_, [&] { return random.Uniform(); }, image);
}

}  // namespace tenon
