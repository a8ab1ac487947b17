// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/window_shuffle.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<SampleStream>> WindowShuffle::Create(
    std::unique_ptr<SampleStream> stream, const SampleSpec& spec,
    int64_t window) {
  if (stream == nullptr) {
    return absl::InvalidArgumentError(
        "WindowShuffle::Create(): there is no stream to shuffle");
  }
  if (window < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("WindowShuffle::Create(): window is ", window,
                     "; it must be at least 1"));
  }
  TENON_ASSIGN_OR_RETURN(BatchLayout layout, BatchLayout::Create(spec, 1));
  return absl::WrapUnique(
      new WindowShuffle(std::move(stream), std::move(layout), window));
}

WindowShuffle::WindowShuffle(std::unique_ptr<SampleStream> stream,
                             BatchLayout layout, int64_t window)
    : stream_(std::move(stream)),
      window_(static_cast<size_t>(window)),
      layout_(std::move(layout)) {}

absl::StatusOr<bool> WindowShuffle::Next(SampleRandom& random, Sample& sample) {
  while (!ended_ && kept_ < window_) {
    if (kept_ == slots_.size()) {
      const auto bytes = static_cast<size_t>(layout_.total_bytes());
      Slot added;
      added.memory = std::make_unique<std::byte[]>(bytes);
      added.scratch = std::make_unique<SampleScratch>(&layout_);
      slots_.push_back(std::move(added));
    }
    const Slot& slot = slots_[kept_];
    slot.scratch->Reset();
    Sample kept = SampleOf(slot);
    TENON_ASSIGN_OR_RETURN(const bool more, stream_->Next(random, kept));
    if (more) {
      ++kept_;
    } else {
      ended_ = true;
    }
  }
  if (kept_ == 0) return false;
  const auto drawn = static_cast<size_t>(random.UniformInt(kept_));
  --kept_;
  std::swap(slots_[drawn], slots_[kept_]);
  // Dropped if it cannot be copied: it would fail each time that it is drawn.
  TENON_RETURN_IF_ERROR(sample.CopyFrom(SampleOf(slots_[kept_])));
  return true;
}

}  // namespace tenon::loader
