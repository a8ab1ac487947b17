// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Common code of the small examples: main(), and a deadline.

#ifndef TENON_EXAMPLES_EXAMPLE_H_
#define TENON_EXAMPLES_EXAMPLE_H_

#include <cstdio>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"  // IWYU pragma: export
#include "tenon/spawn/child/init.h"

namespace tenon {

// Nothing in an example takes that long.
inline Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

// The exit code of a main(); an error is printed.
inline int Finish(const absl::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

// All of a main() whose children are this same program.
inline int RunExample(int argc, char** argv, absl::Status (*run)()) {
  spawn::Init(argc, argv);
  return Finish(run());
}

}  // namespace tenon

#endif  // TENON_EXAMPLES_EXAMPLE_H_
