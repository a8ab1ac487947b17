// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/syscall_failer.h"
#include "tenon/shm/testing/trace/tracee.h"
#include "tenon/spawn/report/output.h"

namespace tenon::spawn {
namespace {

// Writes in the place of a child. The process's own stdout is a file.
absl::Status Tee(const std::string& path) {
  struct stat before = {};
  fstat(STDOUT_FILENO, &before);
  TENON_ASSIGN_OR_RETURN(const auto output,
                         Output::Create({.stdout_file = path, .tee = true}));
  if (write(output->stdout_fd(), "text", 4) != 4) {
    return absl::DataLossError("written to no pipe");
  }
  TENON_RETURN_IF_ERROR(output->Begin());
  TENON_RETURN_IF_ERROR(output->Finish(Deadline::Never()));
  struct stat after = {};
  fstat(STDOUT_FILENO, &after);
  return after.st_size == before.st_size + 4
             ? absl::OkStatus()
             : absl::DataLossError("not copied to stdout");
}

TEST(OutputFaultTest, AFailedCallIsAnErrorAndDropsNoSink) {
  if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
  const std::string directory =
      absl::StrCat(testing::TempDir(), "/output_fault_test_", getpid());
  std::filesystem::create_directory(directory);
  FaultScenario scenario;
  scenario.name = "tee";
  scenario.prepare = [&] {
    const UniqueFd own(open(absl::StrCat(directory, "/own").c_str(),
                            O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
    dup2(own.get(), STDOUT_FILENO);
  };
  scenario.body = [&] { return Tee(absl::StrCat(directory, "/log")); };
  scenario.check = [](const SyscallFault&, const absl::Status& outcome) {
    if (absl::IsResourceExhausted(outcome)) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("returned ", outcome.ToString()));
  };
  scenario.faults = {{.call = "pipe2", .error = EMFILE},
                     {.call = "fcntl", .error = EMFILE},
                     {.call = "openat", .error = EMFILE},
                     {.call = "eventfd2", .error = EMFILE}};
  TENON_ASSERT_OK_AND_ASSIGN(const FaultReport report,
                             FailSystemCalls(scenario));
  EXPECT_TRUE(report.ok()) << report.ToString();
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tenon::spawn
