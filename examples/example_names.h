// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of the project's README use without declaring them.
// Examples are compiled, not run: nothing here is defined.

#ifndef TENON_EXAMPLES_EXAMPLE_NAMES_H_
#define TENON_EXAMPLES_EXAMPLE_NAMES_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "tenon/loader/loader.h"
#include "tenon/spawn/child/init.h"

int Fail(const absl::Status& status);
void Train(std::span<const float> images, int64_t count);
extern const std::string config;

#endif  // TENON_EXAMPLES_EXAMPLE_NAMES_H_
