// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests that need other file systems than the machine's: a small /dev/shm,
// no /dev/shm, no /proc.
//
//   if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
//   EXPECT_TRUE(PassesInChild([] {
//     ASSERT_TRUE(EnterOwnMountNamespace());
//     ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
//     ...
//   }));

#ifndef TENON_SHM_TESTING_MOUNT_NAMESPACE_TESTING_H_
#define TENON_SHM_TESTING_MOUNT_NAMESPACE_TESTING_H_

namespace tenon {

// Whether a child could enter one. If not, tests skip with this message:
bool CanEnterOwnMountNamespace();
inline constexpr char kNoMountNamespace[] =
    "this user may not make mount namespaces here";

// Moves this process, permanently, to a separate mount namespace, as the same
// user, where it may mount. Not visible outside.
bool EnterOwnMountNamespace();

// Mounts a tmpfs over `path`. `flags` are those of mount(2).
bool MountTmpfs(const char* path, const char* options, unsigned long flags = 0);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_MOUNT_NAMESPACE_TESTING_H_
