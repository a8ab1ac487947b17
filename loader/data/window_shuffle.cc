// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/window_shuffle.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
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
  TENON_ASSIGN_OR_RETURN(BatchLayout layout, BatchLayout::Create(spec, window));
  return absl::WrapUnique(
      new WindowShuffle(std::move(stream), std::move(layout)));
}

WindowShuffle::WindowShuffle(std::unique_ptr<SampleStream> stream,
                             BatchLayout layout)
    : stream_(std::move(stream)),
      layout_(std::move(layout)),
      memory_(new std::byte[static_cast<size_t>(layout_.total_bytes())]) {}

absl::StatusOr<bool> WindowShuffle::Next(SampleRandom& random, Sample& sample) {
  while (!ended_ && kept_ < layout_.batch_size()) {
    Sample slot = Slot(kept_);
    TENON_ASSIGN_OR_RETURN(const bool more, stream_->Next(random, slot));
    if (more) {
      ++kept_;
    } else {
      ended_ = true;
    }
  }
  if (kept_ == 0) return false;
  const auto drawn =
      static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(kept_)));
  TENON_RETURN_IF_ERROR(Copy(drawn, sample));
  --kept_;
  if (drawn != kept_) TENON_RETURN_IF_ERROR(Copy(kept_, Slot(drawn)));
  return true;
}

absl::Status WindowShuffle::Copy(int64_t from, const Sample& to) const {
  for (int f = 0; f < static_cast<int>(layout_.fields().size()); ++f) {
    TENON_ASSIGN_OR_RETURN(const absl::Span<std::byte> source,
                           Slot(from).data<std::byte>(f));
    TENON_ASSIGN_OR_RETURN(const absl::Span<std::byte> target,
                           to.data<std::byte>(f));
    std::copy(source.begin(), source.end(), target.begin());
  }
  return absl::OkStatus();
}

}  // namespace tenon::loader
