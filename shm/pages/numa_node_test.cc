// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/numa_node.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/seccomp_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr size_t kNodeSize = 3 * 4096;

UniqueFd MakeMemfdForNodes(size_t size_bytes = kNodeSize) {
  UniqueFd fd(memfd_create("numa_node_test", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size_bytes)), 0);
  return fd;
}

// The policy of the page at `address`, or its node.
int PolicyAt(const void* address, unsigned flags) {
  int result = -1;
  EXPECT_EQ(syscall(SYS_get_mempolicy, &result, nullptr, 0ul, address,
                    MPOL_F_ADDR | flags),
            0);
  return result;
}

class NumaNodeTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::Status bound =
        BindToNode(MakeMemfdForNodes().get(), kNodeSize, 0, "x");
    if (absl::IsUnimplemented(bound) || absl::IsPermissionDenied(bound)) {
      GTEST_SKIP() << bound;
    }
    ASSERT_THAT(bound, IsOk());
  }
};

TEST_F(NumaNodeTest, PolicyStaysWithTheFile) {
  const UniqueFd fd = MakeMemfdForNodes();
  ASSERT_THAT(BindToNode(fd.get(), kNodeSize, 0, "x"), IsOk());
  void* data =
      mmap(nullptr, kNodeSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_EQ(PolicyAt(data, 0), MPOL_BIND);
  EXPECT_EQ(PolicyAt(static_cast<char*>(data) + kNodeSize - 1, 0), MPOL_BIND);
  std::memset(data, 1, kNodeSize);
  EXPECT_EQ(PolicyAt(data, MPOL_F_NODE), 0);
  munmap(data, kNodeSize);
  const UniqueFd other = MakeMemfdForNodes();
  data = mmap(nullptr, kNodeSize, PROT_READ, MAP_SHARED, other.get(), 0);
  ASSERT_NE(data, MAP_FAILED);
  EXPECT_EQ(PolicyAt(data, 0), MPOL_DEFAULT) << "of this file alone";
  munmap(data, kNodeSize);
}

TEST_F(NumaNodeTest, NodesThatAreNotThereAreRefused) {
  for (int node : {-1, 1023, 1024, 1 << 30}) {
    EXPECT_THAT(BindToNode(MakeMemfdForNodes().get(), kNodeSize, node, "x"),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("does not exist"),
                               HasSubstr("nodes with memory: 0"))))
        << node;
  }
}

TEST_F(NumaNodeTest, MoreThanTheNodeHasIsRefusedAtOnce) {
  const size_t size_bytes = size_t{1} << 45;
  EXPECT_THAT(
      BindToNode(MakeMemfdForNodes(size_bytes).get(), size_bytes, 0, "'x'"),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("'x'"), HasSubstr("node0/meminfo"))));
}

TEST_F(NumaNodeTest, ContainersThatForbidItAreNamed) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_mbind, .error = EPERM}));
    EXPECT_THAT(BindToNode(MakeMemfdForNodes().get(), kNodeSize, 0, "x"),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         HasSubstr("--cap-add SYS_NICE")));
  }));
}

TEST_F(NumaNodeTest, KernelsWithoutNodesAreNamed) {
  EXPECT_TRUE(PassesInChild([] {
    ASSERT_TRUE(FailSystemCall({.number = SYS_mbind, .error = ENOSYS}));
    EXPECT_THAT(BindToNode(MakeMemfdForNodes().get(), kNodeSize, 0, "x"),
                StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("mbind")));
  }));
}

TEST(BindToNodeTest, NeedsADescriptor) {
  EXPECT_THAT(
      BindToNode(-1, kNodeSize, 0, "x"),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("[EBADF]")));
}

}  // namespace
}  // namespace tenon
