// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FewFds: for tests of code that runs out of descriptors.
//
//   absl::Status status;
//   {
//     const FewFds few(2);
//     status = Open(path);
//   }
//   EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted));
//
// Expectations follow at the end of its scope: UBSan needs descriptors to check
// the types of matchers.

#ifndef TENON_SHM_TESTING_FEW_FDS_H_
#define TENON_SHM_TESTING_FEW_FDS_H_

#include <sys/resource.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace tenon {

// Until it is destroyed, this process can open at most `room` descriptors more.
// Those that are open stay open, and make room when they are closed.
// Threads: of all threads of the process.
class FewFds {
 public:
  explicit FewFds(rlim_t room = 0) {
    const int lowest = dup(STDERR_FILENO);
    EXPECT_GE(lowest, 0);
    close(lowest);
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit now = before_;
    now.rlim_cur = static_cast<rlim_t>(lowest) + room;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~FewFds() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewFds(const FewFds&) = delete;
  FewFds& operator=(const FewFds&) = delete;

 private:
  rlimit before_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_FEW_FDS_H_
