// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The same test runs with the fake driver, and with the machine's in a target
// that sets $TENON_TEST_DRIVER to "machine".

#ifndef TENON_CUDA_IPC_MACHINE_DRIVER_TESTING_H_
#define TENON_CUDA_IPC_MACHINE_DRIVER_TESTING_H_

#include <stdlib.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {

inline bool UsesMachineDriver() {
  const char* const driver = getenv("TENON_TEST_DRIVER");
  return driver != nullptr && std::string(driver) == "machine";
}

// Why the machine's driver cannot be used; empty if it can. Asks a child, so
// that the test itself has no driver and may fork.
inline std::string MachineDriverProblem() {
  absl::StatusOr<ForkedChild> child =
      ForkedChild::Fork({.name = "probe"}, [](const Reporter& reporter) {
        const absl::Status found = GetDriver().status();
        if (!found.ok()) reporter.Note(found.ToString());
      });
  EXPECT_THAT(child, IsOk());
  if (!child.ok()) return "no process to ask for it";
  EXPECT_TRUE(child->EndsWell());
  for (const auto& [note, count] : child->report().notes) return note;
  return "";
}

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_MACHINE_DRIVER_TESTING_H_
