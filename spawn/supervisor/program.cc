// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/supervisor/program.h"

#include <string>

#include "absl/strings/string_view.h"

namespace tenon::spawn {
namespace {

struct Program {
  bool remembered = false;
  std::string name;
};

// Never destroyed: a static destructor of the user may still start a process.
Program& TheProgram() {
  static Program& program = *new Program;
  return program;
}

}  // namespace

void RememberProgram(absl::string_view argv0) {
  TheProgram() = {.remembered = true, .name = std::string(argv0)};
}

bool IsProgramRemembered() { return TheProgram().remembered; }

const std::string& ProgramName() { return TheProgram().name; }

}  // namespace tenon::spawn
