// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "tenon/shm/base/wire_version.h"

namespace tenon {

const uint32_t kWireVersionStep = 1;

}  // namespace tenon
