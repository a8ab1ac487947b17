// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/sampling/sampler.h"

#include <cstdint>
#include <numeric>

#include "absl/types/span.h"

namespace tenon::loader {

void SequentialSampler::Fill(int64_t /*epoch*/, int64_t first,
                             absl::Span<int64_t> indices) {
  std::iota(indices.begin(), indices.end(), first);
}

}  // namespace tenon::loader
