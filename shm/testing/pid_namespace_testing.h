// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests in a separate pid namespace, as of `unshare --pid --fork`: /proc
// stays that of the outer namespace, and shows other numbers.
//
//   if (!CanEnterOwnPidNamespace()) GTEST_SKIP() << kNoPidNamespace;
//   EXPECT_TRUE(PassesInPidNamespace(Proc::kOuter, [] { ... }));

#ifndef TENON_SHM_TESTING_PID_NAMESPACE_TESTING_H_
#define TENON_SHM_TESTING_PID_NAMESPACE_TESTING_H_

#include <functional>

#include "gtest/gtest.h"

namespace tenon {

// The file system mounted at /proc.
enum class Proc { kOuter, kOwn, kNone };

// Whether PassesInPidNamespace() can work; needs user namespaces or root.
bool CanEnterOwnPidNamespace();
inline constexpr char kNoPidNamespace[] =
    "this user may not make pid namespaces here (needs root or user "
    "namespaces)";

// Runs `body` as pid 1 of a new pid namespace, as the same user. Forks twice;
// fails as PassesInChild() does.
testing::AssertionResult PassesInPidNamespace(
    Proc proc, const std::function<void()>& body);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_PID_NAMESPACE_TESTING_H_
