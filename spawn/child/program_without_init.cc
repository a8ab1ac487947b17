// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A program that starts a child without a call of spawn::Init(). Such a child
// would run this main() and start the next one. With the path of a program and
// the name of its entry point as arguments it starts that one, and joins it. As
// a child it starts itself, up to kMostLevels of them.

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"

namespace {

absl::Status Nothing(tenon::spawn::Child&) { return absl::OkStatus(); }
TENON_SPAWN_ENTRY("nothing", Nothing);

constexpr char kLevel[] = "PROGRAM_WITHOUT_INIT_LEVEL";
constexpr char kMostLevels[] = "aaa";  // A letter for each.

// Whether there may be one more.
bool AddLevel() {
  const char* const before = getenv(kLevel);
  const std::string level = absl::StrCat(before != nullptr ? before : "", "a");
  setenv(kLevel, level.c_str(), /*overwrite=*/1);
  std::printf("a child\n");
  return level != kMostLevels;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 || (argc == 2 && AddLevel())) {
    absl::StatusOr<tenon::spawn::Process> other =
        tenon::spawn::Process::Start({.entry = argc == 3 ? argv[2] : "nothing",
                                      .program = argc == 3 ? argv[1] : argv[0],
                                      .index = 7,
                                      .argument = "of another program"});
    const absl::Status status =
        other.ok() ? other->Join(tenon::Deadline::Never()) : other.status();
    std::printf("%s\n", status.ToString().c_str());
    return 0;
  }
  const absl::StatusOr<tenon::spawn::Process> process =
      tenon::spawn::Process::Start({.entry = "nothing"});
  const bool has_child = wait(nullptr) >= 0 || errno != ECHILD;
  std::printf("arguments: %d\nchildren: %d\n%s\n", argc - 1, has_child,
              process.status().ToString().c_str());
}
