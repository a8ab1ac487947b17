// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RandomId: a unique id of a column or an arena.

#ifndef TENON_SHM_BASE_RANDOM_ID_H_
#define TENON_SHM_BASE_RANDOM_ID_H_

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// A value of 128 random bits; trivially copyable, the same in every process.
// Not a secret, and not a credential.
struct RandomId {
  uint64_t high = 0;
  uint64_t low = 0;

  // Errors: getentropy()'s.
  static absl::StatusOr<RandomId> New();

  bool is_zero() const { return high == 0 && low == 0; }
  // 32 hexadecimal digits.
  std::string ToString() const;

  friend auto operator<=>(const RandomId&, const RandomId&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const RandomId& id) {
    return H::combine(std::move(state), id.high, id.low);
  }
};

}  // namespace tenon

#endif  // TENON_SHM_BASE_RANDOM_ID_H_
