// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Remainder: an option of samplers for ranks: how the last samples or batches
// of an epoch are divided, if they are fewer than the ranks need.

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
