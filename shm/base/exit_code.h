// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ExitCode: how a program ends with a status.
//
//   int main() { return ExitCode(Run()); }

#ifndef TENON_SHM_BASE_EXIT_CODE_H_
#define TENON_SHM_BASE_EXIT_CODE_H_

#include "absl/status/status.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// 0 if `status` is OK. Otherwise prints it to stderr, in one line, and returns
// 1. For main(), no library calls it. Threads: any.
int ExitCode(const absl::Status& status);

}  // namespace tenon

#endif  // TENON_SHM_BASE_EXIT_CODE_H_
