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

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Until it is destroyed, this process can open at most `room` descriptors more.
// Those that are open stay open, and make room when they are closed.
//
// All others are opened here. A low limit would do, too, but the kernel
// compares it also with the descriptors that all processes of this user have in
// flight, so tests that run at the same time would decide whether this one can
// send.
//
// Threads: of all threads of the process.
class FewFds {
 public:
  explicit FewFds(rlim_t room = 0) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit now = before_;
    now.rlim_cur = std::min(now.rlim_cur, kMost);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
    const int lowest = dup(STDERR_FILENO);
    EXPECT_GE(lowest, 0);
    close(lowest);
    const int first = lowest + static_cast<int>(room);
    for (;;) {
      UniqueFd fd(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, first));
      if (!fd.valid()) break;
      taken_.push_back(std::move(fd));
    }
  }
  ~FewFds() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }
  FewFds(const FewFds&) = delete;
  FewFds& operator=(const FewFds&) = delete;

 private:
  static constexpr rlim_t kMost = 4000;

  rlimit before_;
  std::vector<UniqueFd> taken_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_FEW_FDS_H_
