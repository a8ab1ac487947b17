// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/carried_version.h"

#include <cstdint>

namespace tenon {

// Weak: next_carried_version.cc defines it, too.
// NOLINTNEXTLINE(readability-redundant-declaration): gcc wants it.
[[gnu::weak]] extern const uint32_t kCarriedVersionStep;
const uint32_t kCarriedVersionStep = 0;

}  // namespace tenon
