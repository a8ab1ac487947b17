// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests with a daemon of names: in a /dev/shm of their own, because it
// removes the dead names of all processes of the user.

#ifndef TENON_SHM_MANAGER_MANAGER_TESTING_H_
#define TENON_SHM_MANAGER_MANAGER_TESTING_H_

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"

namespace tenon {

inline Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

inline testing::AssertionResult InOwnShm(const std::function<void()>& body) {
  return PassesInChild([&] {
    ASSERT_TRUE(EnterOwnMountNamespace());
    ASSERT_TRUE(MountTmpfs("/dev/shm", "size=64m"));
    body();
  });
}

// A directory for the socket of a daemon.
class ManagerFolder {
 public:
  ManagerFolder() {
    char name[] = "/tmp/tenon_manager_XXXXXX";
    EXPECT_NE(mkdtemp(name), nullptr);
    folder_ = name;
  }
  ~ManagerFolder() {
    unlink(path().c_str());  // Of a daemon that was killed.
    EXPECT_EQ(rmdir(folder_.c_str()), 0);
  }
  ManagerFolder(const ManagerFolder&) = delete;
  ManagerFolder& operator=(const ManagerFolder&) = delete;

  const std::string& folder() const { return folder_; }
  std::string path() const { return folder_ + "/socket"; }

 private:
  std::string folder_;
};

// A daemon that runs in a forked child.
inline absl::StatusOr<ForkedChild> StartDaemon(
    const std::string& path, const ManagerOptions& options = {}) {
  return ForkedChild::Fork(
      {.name = "daemon", .watchdog = absl::Seconds(100)}, [&](const Reporter&) {
        TENON_ASSERT_OK_AND_ASSIGN(const auto manager,
                                   Manager::Create(path, options));
        EXPECT_THAT(manager->Run(-1), IsOk());
      });
}

// Makes a daemon as the next one at `path` and ends it. UBSan has then seen the
// types of its threads, for which it needs descriptors.
inline void MakeDaemonOnce(const std::string& path,
                           const ManagerOptions& options = {}) {
  EXPECT_THAT(Manager::Create(path, options).status(), IsOk());
}

// Waits for a daemon that is being started.
inline absl::StatusOr<ManagerClient> AttachTo(const std::string& path) {
  absl::StatusOr<ManagerClient> client = absl::UnknownError("not tried");
  EXPECT_TRUE(Becomes([&] {
    client = ManagerClient::Attach({.path = path}, Soon());
    return !absl::IsUnavailable(client.status());
  }));
  return client;
}

inline absl::StatusOr<Segment> CreateIn(const std::string& prefix) {
  return Segment::CreateSharedWritable(
      8192, {.strategy = SharingStrategy::kFileSystem, .name_prefix = prefix});
}

inline size_t CountNames(const std::string& prefix) {
  const auto names = ListShmNames(prefix);
  EXPECT_THAT(names, IsOk());
  return names.ok() ? names->size() : 0;
}

inline bool BecomesCount(const std::string& prefix, size_t count) {
  return Becomes([&] { return CountNames(prefix) == count; });
}

// A process that attaches, creates segments, and waits to be killed.
inline absl::StatusOr<ForkedChild> StartClient(const std::string& path,
                                               const std::string& prefix,
                                               size_t count) {
  return ForkedChild::Fork(
      {.name = "client", .watchdog = absl::Seconds(100)}, [&](const Reporter&) {
        TENON_ASSERT_OK_AND_ASSIGN(const auto client, AttachTo(path));
        std::vector<Segment> segments;
        for (size_t i = 0; i < count; ++i) {
          TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateIn(prefix));
          segments.push_back(std::move(segment));
        }
        for (;;) pause();
      });
}

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_MANAGER_TESTING_H_
