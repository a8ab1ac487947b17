// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/photo_dataset.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/examples/photos/file_bytes.h"
#include "tenon/examples/photos/photo_folder.h"
#include "tenon/examples/photos/photo_sample.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/field.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

using loader::DtypeOf;
using loader::FieldSpec;
using loader::Sample;
using loader::SampleRandom;

class PhotoDataset : public loader::Dataset {
 public:
  PhotoDataset(std::vector<Photo> photos, int image_size, PhotoSampler sampler)
      : photos_(std::move(photos)),
        image_size_(image_size),
        sampler_(std::move(sampler)) {}

  int64_t size() const override { return std::ssize(photos_); }

  std::vector<FieldSpec> fields() const override {
    return {{"image", DtypeOf<float>(), {3, image_size_, image_size_}},
            {"label", DtypeOf<int64_t>(), {}}};
  }

  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample sample) override {
    const Photo& photo = photos_[static_cast<size_t>(index)];
    const absl::Status made = MakeImage(photo.path, random, sample);
    if (!made.ok()) {
      return absl::Status(made.code(),
                          absl::StrCat(photo.path, ": ", made.message()));
    }
    sample.field<int64_t>(1)[0] = photo.label;
    return absl::OkStatus();
  }

 private:
  absl::Status MakeImage(const std::string& path, SampleRandom& random,
                         Sample sample) {
    TENON_RETURN_IF_ERROR(ReadFile(path, jpeg_));
    const std::span<float> image = sample.field<float>(0);
    return sampler_.Make(
        jpeg_, [&] { return random.Uniform(); },
        absl::MakeSpan(image.data(), image.size()));
  }

  std::vector<Photo> photos_;
  int image_size_;
  PhotoSampler sampler_;
  std::vector<uint8_t> jpeg_;  // Kept for its memory.
};

absl::StatusOr<std::unique_ptr<loader::Dataset>> MakePhotos(
    absl::string_view config) {
  ArchiveReader reader(config);
  TENON_ASSIGN_OR_RETURN(const int image_size, reader.Get<int>());
  TENON_ASSIGN_OR_RETURN(const uint64_t count, reader.Get<uint64_t>());
  std::vector<Photo> photos;
  for (uint64_t i = 0; i < count; ++i) {
    Photo photo;
    TENON_ASSIGN_OR_RETURN(photo.path, reader.GetString());
    TENON_ASSIGN_OR_RETURN(photo.label, reader.Get<int>());
    photos.push_back(std::move(photo));
  }
  TENON_RETURN_IF_ERROR(reader.Finish());
  TENON_ASSIGN_OR_RETURN(PhotoSampler sampler,
                         PhotoSampler::Create(image_size));
  return std::make_unique<PhotoDataset>(std::move(photos), image_size,
                                        std::move(sampler));
}

TENON_LOADER_DATASET(kPhotoDataset, MakePhotos);

}  // namespace

std::string PhotoDatasetConfig(const PhotoFolder& folder, int image_size) {
  ArchiveWriter writer;
  writer.Put(image_size);
  writer.Put(static_cast<uint64_t>(folder.photos.size()));
  for (const Photo& photo : folder.photos) {
    writer.PutString(photo.path);
    writer.Put(photo.label);
  }
  return std::move(writer).bytes();
}

}  // namespace tenon
