// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/exit_code.h"

#include <iostream>

#include "absl/status/status.h"

namespace tenon {

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  std::cerr << status << "\n";
  return 1;
}

}  // namespace tenon
