// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A program that starts a child without a call of spawn::Init(). Such a child
// would run this main() and start the next one. With the path of a program and
// the name of its entry point as arguments it starts that one, and joins it.

#include <errno.h>
#include <sys/wait.h>

#include <cstdio>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"

namespace {

absl::Status Nothing(tenon::spawn::Child&) { return absl::OkStatus(); }
TENON_SPAWN_ENTRY("nothing", Nothing);

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) {
    absl::StatusOr<tenon::spawn::Process> other =
        tenon::spawn::Process::Start({.entry = argv[2],
                                      .program = argv[1],
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
