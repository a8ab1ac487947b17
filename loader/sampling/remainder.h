// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Remainder: what ranks do with samples that cannot be divided among them.

#ifndef TENON_LOADER_SAMPLING_REMAINDER_H_
#define TENON_LOADER_SAMPLING_REMAINDER_H_

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

enum class Remainder {
  kPad,   // The first samples of the epoch are used once more.
  kDrop,  // The last samples of the epoch are left out.
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_SAMPLING_REMAINDER_H_
