// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests that need other file systems than the machine's: a small /dev/shm,
// none at all, no /proc.
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

// Whether a child could enter one. What needs it says, if not, this:
bool CanEnterOwnMountNamespace();
inline constexpr char kNoMountNamespace[] =
    "this user may not make mount namespaces here";

// Takes this process, for good, to a mount namespace of its own, as the user it
// was, where it may mount. Nothing of it is seen outside.
bool EnterOwnMountNamespace();

// Covers what is at `path`. `flags` are those of mount(2).
bool MountTmpfs(const char* path, const char* options, unsigned long flags = 0);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_MOUNT_NAMESPACE_TESTING_H_
