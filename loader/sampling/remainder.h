// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Remainder: how ranks divide the last samples or batches of an epoch.

#ifndef TENON_LOADER_SAMPLING_REMAINDER_H_
#define TENON_LOADER_SAMPLING_REMAINDER_H_

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

enum class Remainder {
  kPad,   // The first ones of the epoch are used once more.
  kDrop,  // The last ones are dropped.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_REMAINDER_H_
