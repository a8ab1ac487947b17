// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/scratch_sample.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/statusor.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

absl::StatusOr<std::unique_ptr<ScratchSample>> ScratchSample::Create(
    const SampleSpec& spec) {
  TENON_ASSIGN_OR_RETURN(BatchLayout layout, BatchLayout::Create(spec, 1));
  return absl::WrapUnique(new ScratchSample(std::move(layout)));
}

ScratchSample::ScratchSample(BatchLayout layout)
    : layout_(std::move(layout)),
      memory_(new std::byte[static_cast<size_t>(layout_.total_bytes())]),
      scratch_(&layout_) {}

Sample ScratchSample::Reset() {
  scratch_.Reset();
  return Sample(layout_, memory_.get(), 0, 1, &scratch_);
}

}  // namespace tenon::loader
