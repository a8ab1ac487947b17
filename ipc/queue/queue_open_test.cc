// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process that cannot join a queue for want of descriptors tries again with
// the handle that it has: each kind of queue, at each limit.

#include <sys/resource.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/joinable_queue.h"
#include "tenon/ipc/queue/pipe.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/simple_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/few_fds.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

absl::Status OpenWith(rlim_t room, QueueHandle& handle, const auto& open) {
  const FewFds few(room);
  return open(std::move(handle));
}

// With room for one descriptor more each time, until that is enough.
void ExpectOpensAtLast(absl::StatusOr<QueueHandle> shared, const auto& open) {
  ASSERT_THAT(shared, IsOk());
  QueueHandle handle = *std::move(shared);
  const std::string bytes = handle.bytes;
  const size_t fds = handle.fds.size();
  rlim_t room = 0;
  for (; room < 50; ++room) {
    const absl::Status opened = OpenWith(room, handle, open);
    if (opened.ok()) break;
    ASSERT_THAT(opened, StatusIs(absl::StatusCode::kResourceExhausted))
        << "with " << room;
    EXPECT_EQ(handle.bytes, bytes);
    ASSERT_EQ(handle.fds.size(), fds);
    for (const UniqueFd& fd : handle.fds) ASSERT_TRUE(fd.valid());
  }
  EXPECT_GT(room, 2u);
  EXPECT_LT(room, 50u);
  EXPECT_TRUE(handle.fds.empty());
}

template <typename Q>
class QueueOpenTest : public testing::Test {};

using Kinds = testing::Types<Queue<uint64_t>, SimpleQueue<uint64_t>,
                             JoinableQueue<uint64_t>, Pipe<uint64_t>>;
TYPED_TEST_SUITE(QueueOpenTest, Kinds);

TYPED_TEST(QueueOpenTest, AfterAFailureTheHandleIsWhole) {
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, TypeParam::Create());
  ExpectOpensAtLast(queue.Share(), [](QueueHandle&& handle) {
    return TypeParam::Open(std::move(handle)).status();
  });
}

TEST(TensorQueueOpenTest, AfterAFailureTheHandleIsWhole) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto queue, TensorQueue::Create());
  ExpectOpensAtLast(queue->Share(), [](QueueHandle&& handle) {
    return TensorQueue::Open(std::move(handle)).status();
  });
}

}  // namespace
}  // namespace tenon
