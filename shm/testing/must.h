// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Check, Must: for benchmarks, which end at an error.

#ifndef TENON_SHM_TESTING_MUST_H_
#define TENON_SHM_TESTING_MUST_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/check.h"

namespace tenon {

// Both abort on an error and print it.
inline void Check(const absl::Status& status) {
  TENON_CHECK(status.ok(), status.ToString());
}
template <typename T>
T Must(absl::StatusOr<T> value) {
  Check(value.status());
  return *std::move(value);
}

}  // namespace tenon

#endif  // TENON_SHM_TESTING_MUST_H_
