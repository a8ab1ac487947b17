// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TENON_SPAWN_MAIN: main() of a program that starts processes.
//
//   absl::Status Run() { return absl::OkStatus(); }
//   TENON_SPAWN_MAIN(Run);
//
// Init() (init.h) comes first, as it must; then `run`, a function or lambda
// without parameters, is called, and the program ends with ExitCode()
// (exit_code.h) of its status: 0, or 1 and the error on stderr. A program with
// flags or with InitOptions defines main() itself.

#ifndef TENON_SPAWN_CHILD_MAIN_H_
#define TENON_SPAWN_CHILD_MAIN_H_

#include "tenon/shm/base/exit_code.h"
#include "tenon/spawn/child/init.h"

#define TENON_SPAWN_MAIN(run)         \
  int main(int argc, char** argv) {   \
    ::tenon::spawn::Init(argc, argv); \
    return ::tenon::ExitCode(run());  \
  }                                   \
  static_assert(true, "a semicolon follows")

#endif  // TENON_SPAWN_CHILD_MAIN_H_
