// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_LOADER_EXAMPLE_NAMES_H_
#define TENON_LOADER_EXAMPLE_NAMES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "tenon/loader/loader.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/child/init.h"

int Fail(const absl::Status& status);
void Train(absl::Span<const float> images, int64_t count);
void Use(absl::Span<const float> values);
extern const std::string config;

#endif  // TENON_LOADER_EXAMPLE_NAMES_H_
