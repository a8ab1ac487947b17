// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/chain_dataset.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/datasets/members.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

using Members = std::vector<std::unique_ptr<IterableDataset>>;

class ChainStream : public SampleStream {
 public:
  ChainStream(const Members* members, int64_t shard, int64_t epoch)
      : members_(members), shard_(shard), epoch_(epoch) {}

  absl::StatusOr<bool> Next(SampleRandom& random, Sample& sample) override {
    for (;;) {
      if (stream_ == nullptr) {
        if (next_ == members_->size()) return false;
        TENON_ASSIGN_OR_RETURN(
            stream_, OpenShard(*(*members_)[next_++], shard_, epoch_));
      }
      TENON_ASSIGN_OR_RETURN(const bool more, stream_->Next(random, sample));
      if (more) return true;
      stream_.reset();
    }
  }

  absl::StatusOr<int64_t> Skip(int64_t samples) override {
    return stream_ == nullptr ? 0 : stream_->Skip(samples);
  }

 private:
  const Members* members_;
  int64_t shard_;
  int64_t epoch_;
  size_t next_ = 0;
  std::unique_ptr<SampleStream> stream_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ChainDataset>> ChainDataset::Create(
    Members datasets) {
  constexpr char kCreate[] = "ChainDataset::Create()";
  TENON_RETURN_IF_ERROR(CheckMembers(kCreate, datasets));
  TENON_RETURN_IF_ERROR(CheckSameFields(kCreate, datasets));
  TENON_RETURN_IF_ERROR(CheckSameShards(kCreate, datasets));
  return absl::WrapUnique(new ChainDataset(std::move(datasets)));
}

int64_t ChainDataset::open_shards() const {
  return FewestOpenShards(datasets_);
}

absl::StatusOr<std::unique_ptr<SampleStream>> ChainDataset::Open(
    int64_t shard, int64_t epoch) {
  return std::make_unique<ChainStream>(&datasets_, shard, epoch);
}

}  // namespace tenon::loader
