// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "tenon/shm/base/carried_version.h"

namespace tenon {

const uint32_t kCarriedVersionStep = 1;

}  // namespace tenon
