// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The user's program, entered as a supervisor. This runs before the
// constructors of the program and of its shared libraries, so that none of them
// ever runs in a supervisor. The linker accepts it in programs only: a shared
// library cannot link //spawn/child:init.

#include "tenon/spawn/supervisor/supervisor_main.h"

namespace tenon::spawn {
namespace {

bool AreEqual(const char* a, const char* b) {
  while (*a != '\0' && *a == *b) {
    ++a;
    ++b;
  }
  return *a == *b;
}

void EnterIfSupervisor(int argc, char** argv, char**) {
  if (argc > kSupervisorFirstChildArgument &&
      AreEqual(argv[kSupervisorFlagArgument], kSupervisorFlag)) {
    SupervisorMain(argc, argv);
  }
}

[[gnu::section(".preinit_array"),
  gnu::used]] void (*const kEnter)(int, char**, char**) = EnterIfSupervisor;

}  // namespace
}  // namespace tenon::spawn
