// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MemoryCgroup: a control group with a limit of memory, inside of this
// process's own one, for tests of processes that the kernel kills or refuses.
//
//   absl::StatusOr<MemoryCgroup> group = MemoryCgroup::Create(prefix, 64 << 20);
//   if (!group.ok()) GTEST_SKIP() << group.status();
//   EXPECT_TRUE(PassesInChild([&] {
//     ASSERT_TRUE(group->Enter());
//     ...
//   }));
//   EXPECT_TRUE(Becomes([&] { return group->Remove(); }));

#ifndef TENON_SHM_TESTING_MEMORY_CGROUP_TESTING_H_
#define TENON_SHM_TESTING_MEMORY_CGROUP_TESTING_H_

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace tenon {

// Ownership: owns the group, which the destructor removes if it is empty.
// Threads: thread-compatible.
class MemoryCgroup {
 public:
  // A new group of this name, which must be unique.
  // Errors: kUnimplemented, with the reason, if this process may make none.
  static absl::StatusOr<MemoryCgroup> Create(const std::string& name,
                                             size_t limit_bytes);
  MemoryCgroup(MemoryCgroup&& other) noexcept
      : path_(std::exchange(other.path_, {})), limit_(other.limit_) {}
  MemoryCgroup& operator=(MemoryCgroup&&) = delete;
  ~MemoryCgroup() { Remove(); }

  const std::string& path() const { return path_; }
  // The name of the file with the limit.
  const std::string& limit_name() const { return limit_; }

  // False if the kernel refuses it.
  bool SetLimit(size_t bytes) const;
  void ForbidSwap() const;
  // Moves this process into the group.
  bool Enter() const;
  // False while it has processes. May be repeated.
  bool Remove();

 private:
  MemoryCgroup(std::string path, std::string limit)
      : path_(std::move(path)), limit_(std::move(limit)) {}

  std::string path_;  // Empty: removed, or moved from.
  std::string limit_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_MEMORY_CGROUP_TESTING_H_
