// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_LOADER_EXAMPLE_NAMES_H_
#define TENON_LOADER_EXAMPLE_NAMES_H_

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/random/distributions.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tenon/loader/collate/collate.h"
#include "tenon/loader/job/job.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/loader/sampling/subset_sampler.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/child/init.h"

int Fail(const absl::Status& status);
void Train(absl::Span<const float> images, int64_t count);
void Use(absl::Span<const float> values);
extern const std::string config;
extern const std::vector<tenon::Tensor> samples;
extern tenon::loader::SampleRandom draws;

#endif  // TENON_LOADER_EXAMPLE_NAMES_H_
