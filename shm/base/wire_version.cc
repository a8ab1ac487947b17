// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/wire_version.h"

#include <cstdint>

namespace tenon {

// Weak: next_wire_version.cc defines it, too. NOLINTNEXTLINE: gcc wants this.
[[gnu::weak]] extern const uint32_t kWireVersionStep;
const uint32_t kWireVersionStep = 0;

}  // namespace tenon
