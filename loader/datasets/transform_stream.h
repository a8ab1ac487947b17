// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TransformStream: the samples of an iterable dataset, changed by a function.
//
//   class Lines : public IterableDataset {
//    public:
//     SampleSpec spec() const override { return LineSpec(); }
//     absl::StatusOr<std::unique_ptr<SampleStream>> Open(
//         int64_t /*shard*/, int64_t /*epoch*/) override {
//       TENON_ASSIGN_OR_RETURN(auto lines, OpenLines("lines.txt"));
//       return TransformStream::Create(
//           std::move(lines), [](SampleRandom& random, Sample& sample) {
//             return sample.Set("noise", random.Uniform());
//           });
//     }
//   };

#ifndef TENON_LOADER_DATASETS_TRANSFORM_STREAM_H_
#define TENON_LOADER_DATASETS_TRANSFORM_STREAM_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/datasets/scratch_sample.h"
#include "tenon/loader/datasets/transform_dataset.h"
#include "tenon/loader/sampling/sample_random.h"

namespace tenon::loader {

// The function draws after the stream, from the same random numbers of the
// sample. Its errors are those of the sample.
class TransformStream : public SampleStream {
 public:
  using InPlace = TransformDataset::InPlace;
  using FromTo = TransformDataset::FromTo;

  // The same fields. Errors: kInvalidArgument for no stream or function.
  static absl::StatusOr<std::unique_ptr<TransformStream>> Create(
      std::unique_ptr<SampleStream> stream, InPlace function);
  // From samples with the fields of `from` to those of the dataset. Errors:
  // also those of `from`.
  static absl::StatusOr<std::unique_ptr<TransformStream>> Create(
      std::unique_ptr<SampleStream> stream, const SampleSpec& from,
      FromTo function);

  absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override;
  // As the stream does, without a call of the function.
  absl::StatusOr<int64_t> Skip(int64_t samples) override {
    return stream_->Skip(samples);
  }

 private:
  TransformStream() = default;

  std::unique_ptr<SampleStream> stream_;
  InPlace in_place_;
  FromTo from_to_;
  std::unique_ptr<ScratchSample> from_;  // For from_to_.
};

// Shard s is that of the dataset, through a TransformStream.
class TransformIterable : public IterableDataset {
 public:
  using InPlace = TransformDataset::InPlace;
  using FromTo = TransformDataset::FromTo;

  // The same fields. Errors: kInvalidArgument for no dataset or function.
  static absl::StatusOr<std::unique_ptr<TransformIterable>> Create(
      std::unique_ptr<IterableDataset> dataset, InPlace function);
  // Samples with the fields of `spec`. Errors: also those of both specs.
  static absl::StatusOr<std::unique_ptr<TransformIterable>> Create(
      std::unique_ptr<IterableDataset> dataset, const SampleSpec& spec,
      FromTo function);

  int64_t shards() const override { return dataset_->shards(); }
  int64_t open_shards() const override { return dataset_->open_shards(); }
  SampleSpec spec() const override { return spec_; }
  absl::StatusOr<std::unique_ptr<SampleStream>> Open(int64_t shard,
                                                     int64_t epoch) override;
  // That of the dataset; there is none for another spec.
  absl::Status Collate(Collation& batch) override;

 private:
  TransformIterable(std::unique_ptr<IterableDataset> dataset,
                    const SampleSpec& spec)
      : dataset_(std::move(dataset)), spec_(spec) {}

  std::unique_ptr<IterableDataset> dataset_;
  SampleSpec spec_;
  InPlace in_place_;
  FromTo from_to_;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_TRANSFORM_STREAM_H_
