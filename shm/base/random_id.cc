// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/random_id.h"

#include <errno.h>
#include <unistd.h>

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "tenon/shm/base/posix_error.h"

namespace tenon {

absl::StatusOr<RandomId> RandomId::New() {
  RandomId id;
  if (getentropy(&id, sizeof(id)) != 0) {
    return PosixError(errno, "getentropy", "a random id");
  }
  return id;
}

std::string RandomId::ToString() const {
  return absl::StrFormat("%016x%016x", high, low);
}

}  // namespace tenon
