// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A process that is attached for its whole life: it, its forked children, and
// the names that it sends.

#include "tenon/shm_manager/attach_process.h"

#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/segment/name_keeper.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_testing.h"

namespace tenon {
namespace {

using absl::StatusCode::kDeadlineExceeded;
using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kUnavailable;

constexpr char kPrefix[] = "sent";

absl::StatusOr<Tensor> NewTensor(int64_t value) {
  absl::StatusOr<Tensor> tensor = Tensor::CreateShared(
      kDtypeOf<int64_t>, {16},
      {.segment = {.strategy = SharingStrategy::kFileSystem,
                   .name_prefix = kPrefix}});
  if (tensor.ok()) {
    EXPECT_THAT(tensor->Fill(value), IsOk());
  }
  return tensor;
}

testing::AssertionResult Gets(TensorQueue& queue, int64_t value,
                              std::optional<Tensor>* into) {
  absl::StatusOr<Tensor> tensor = queue.GetTensor(Soon());
  if (!tensor.ok()) return testing::AssertionFailure() << tensor.status();
  const int64_t got = **tensor->at<const int64_t>({15});
  *into = *std::move(tensor);
  if (got == value) return testing::AssertionSuccess();
  return testing::AssertionFailure() << got << "; want " << value;
}

// In a /dev/shm of its own, with a daemon, to which the test attaches itself
// with `client` alone.
class AttachProcessTest : public testing::Test {
 protected:
  struct World {
    const std::string& path;
    ManagerClient& client;
    const std::function<void(int)>& signal_daemon;
    const std::function<void()>& start_daemon;
  };

  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }

  static void InWorld(const std::function<void(World)>& body,
                      const ManagerOptions& options = {}) {
    EXPECT_TRUE(InOwnShm([&] {
      const ManagerFolder folder;
      const std::string path = folder.path();
      std::optional<ForkedChild> daemon;
      const std::function<void()> start = [&] {
        daemon.reset();  // Its socket is closed after its connections.
        daemon.emplace(StartDaemon(path, options).value());
      };
      start();
      TENON_ASSERT_OK_AND_ASSIGN(ManagerClient client, AttachTo(path));
      const std::function<void(int)> signal = [&](int number) {
        kill(client.daemon().pid, number);
      };
      body({path, client, signal, start});
      DetachProcess();
      EXPECT_EQ(GetNameKeeper(), nullptr);
      daemon->Kill();
    }));
  }

  static uint64_t KeptNames(ManagerClient& client) {
    const auto stats = client.QueryStats(Soon());
    EXPECT_THAT(stats, IsOk());
    return stats.ok() ? stats->kept_names : 0;
  }
};

TEST_F(AttachProcessTest, WithoutADaemonNothingChanges) {
  const ManagerFolder folder;
  EXPECT_THAT(GetProcessAttachment().status, StatusIs(kFailedPrecondition));
  EXPECT_THAT(AttachProcess({.path = folder.path()}, Soon()),
              StatusIs(kUnavailable));
  EXPECT_THAT(GetProcessAttachment().status, StatusIs(kFailedPrecondition));
  EXPECT_EQ(GetNameKeeper(), nullptr);
  DetachProcess();
}

TEST_F(AttachProcessTest, AForkedChildAttachesBeforeItsFirstName) {
  InWorld([](World world) {
    ASSERT_THAT(AttachProcess({.path = world.path}, Soon()), IsOk());
    EXPECT_THAT(GetProcessAttachment().status, IsOk());
    EXPECT_EQ(GetProcessAttachment().daemon, world.client.daemon().pid);
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild child,
        ForkedChild::Fork({.name = "child"}, [&](const Reporter&) {
          EXPECT_THAT(GetProcessAttachment().status, StatusIs(kUnavailable));
          TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn(kPrefix));
          EXPECT_THAT(GetProcessAttachment().status, IsOk());
          for (;;) pause();
        }));
    ASSERT_TRUE(BecomesCount(kPrefix, 1));
    TENON_ASSERT_OK_AND_ASSIGN(const ManagerStats stats,
                               world.client.QueryStats(Soon()));
    EXPECT_EQ(stats.attached, 3u);
    child.Kill();
    EXPECT_TRUE(BecomesCount(kPrefix, 0));
  });
}

TEST_F(AttachProcessTest, AttachesToTheNextDaemon) {
  InWorld([](World world) {
    ASSERT_THAT(AttachProcess({.path = world.path}, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Segment before, CreateIn(kPrefix));
    world.signal_daemon(SIGKILL);
    EXPECT_TRUE(Becomes([] { return !GetProcessAttachment().status.ok(); }));
    EXPECT_THAT(GetProcessAttachment().status, StatusIs(kUnavailable));
    // As without a daemon.
    TENON_ASSERT_OK_AND_ASSIGN(const Segment meanwhile, CreateIn(kPrefix));
    world.start_daemon();
    EXPECT_TRUE(Becomes([] {
      EXPECT_THAT(CreateIn(kPrefix), IsOk());
      return GetProcessAttachment().status.ok();
    }));
    EXPECT_EQ(CountNames(kPrefix), 2u);
    TENON_ASSERT_OK_AND_ASSIGN(world.client, AttachTo(world.path));
  });
}

// The sender leaves its queue and drops its tensor, or is killed; the daemon
// sweeps; then the message is received.
class MessageTest : public AttachProcessTest,
                    public testing::WithParamInterface<bool> {};

TEST_P(MessageTest, OutlivesItsSenderAndItsCreator) {
  const bool is_killed = GetParam();
  InWorld([&](World world) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto queue, TensorQueue::Create());
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, queue->Share());
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild sender,
        ForkedChild::Fork({.name = "sender"}, [&](const Reporter&) {
          ASSERT_THAT(AttachProcess({.path = world.path}, Soon()), IsOk());
          TENON_ASSERT_OK_AND_ASSIGN(auto own,
                                     TensorQueue::Open(std::move(handle)));
          TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, NewTensor(7));
          ASSERT_THAT(own->Put(tensor, Soon()), IsOk());
          ASSERT_THAT(own->Put(TensorMessage(tensor).Add(1), Soon()), IsOk());
          EXPECT_EQ(GetProcessAttachment().unkept_names, 0u);
          if (is_killed) pause();
          tensor = Tensor();
          own.reset();
        }));
    if (is_killed) {
      EXPECT_TRUE(Becomes([&] { return queue->size() == 2; }));
      sender.Kill();
    } else {
      EXPECT_TRUE(sender.EndsWell());
    }
    EXPECT_TRUE(Becomes([&] {
      const auto stats = world.client.QueryStats(Soon());
      return stats.ok() && stats->sweeps >= 3;
    }));
    EXPECT_THAT(ReclaimDeadNames(), IsOkAndHolds(testing::IsEmpty()));
    EXPECT_EQ(CountNames(kPrefix), 1u);
    ASSERT_THAT(AttachProcess({.path = world.path}, Soon()), IsOk());
    EXPECT_EQ(KeptNames(world.client), 1u);
    std::optional<Tensor> tensor;
    ASSERT_TRUE(Gets(*queue, 7, &tensor));
    EXPECT_EQ(KeptNames(world.client), 1u) << "of the second message";
    TENON_ASSERT_OK_AND_ASSIGN(std::optional<TensorMessage> second,
                               queue->Get(Soon()));
    EXPECT_EQ(second->tensor(0)->storage(), tensor->storage());
    EXPECT_EQ(KeptNames(world.client), 0u);
    EXPECT_EQ(CountNames(kPrefix), 1u);
    second.reset();
    tensor.reset();
    // The last holder removes it.
    EXPECT_TRUE(BecomesCount(kPrefix, 0));
  });
}

INSTANTIATE_TEST_SUITE_P(, MessageTest, testing::Bool(), [](const auto& param) {
  return std::string(param.param ? "Killed" : "Left");
});

// A receiver that knows only the name may forward it, too.
TEST_F(AttachProcessTest, AMessageThatIsForwardedOutlivesItsForwarder) {
  InWorld([](World world) {
    ASSERT_THAT(AttachProcess({.path = world.path}, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto there, TensorQueue::Create());
    TENON_ASSERT_OK_AND_ASSIGN(const auto back, TensorQueue::Create());
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle there_b, there->Share());
    TENON_ASSERT_OK_AND_ASSIGN(QueueHandle back_b, back->Share());
    TENON_ASSERT_OK_AND_ASSIGN(
        ForkedChild forwarder,
        ForkedChild::Fork({.name = "forwarder"}, [&](const Reporter&) {
          TENON_ASSERT_OK_AND_ASSIGN(const auto from,
                                     TensorQueue::Open(std::move(there_b)));
          TENON_ASSERT_OK_AND_ASSIGN(const auto to,
                                     TensorQueue::Open(std::move(back_b)));
          std::optional<Tensor> tensor;
          ASSERT_TRUE(Gets(*from, 5, &tensor));
          ASSERT_THAT(to->Put(*tensor, Soon()), IsOk());
        }));
    {
      TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, NewTensor(5));
      ASSERT_THAT(there->Put(tensor, Soon()), IsOk());
      ASSERT_THAT(there->AwaitTaken(Soon()), IsOk());
      EXPECT_TRUE(forwarder.EndsWell());
      EXPECT_EQ(KeptNames(world.client), 1u);
      std::optional<Tensor> got;
      ASSERT_TRUE(Gets(*back, 5, &got));
    }
    EXPECT_EQ(KeptNames(world.client), 0u);
    EXPECT_TRUE(BecomesCount(kPrefix, 0));
  });
}

TEST_F(AttachProcessTest, AMessageThatIsNotSentIsNotKept) {
  InWorld([](World world) {
    ASSERT_THAT(AttachProcess({.path = world.path}, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto queue,
                               TensorQueue::Create({.capacity = 1}));
    TENON_ASSERT_OK_AND_ASSIGN(std::optional<Tensor> tensor, NewTensor(1));
    TENON_ASSERT_OK_AND_ASSIGN(std::optional<Tensor> other, NewTensor(2));
    ASSERT_THAT(queue->Put(*tensor, Soon()), IsOk());
    EXPECT_THAT(queue->Put(*other, Deadline::Passed()),
                StatusIs(kDeadlineExceeded));
    EXPECT_EQ(KeptNames(world.client), 1u);
    // Its creator drops it while it is in flight: the sender holds it.
    tensor.reset();
    std::optional<Tensor> got;
    ASSERT_TRUE(Gets(*queue, 1, &got));
    EXPECT_EQ(KeptNames(world.client), 0u);
    other.reset();
    got.reset();
    EXPECT_TRUE(Becomes([&] {
      queue->AwaitTaken(Soon()).IgnoreError();
      return CountNames(kPrefix) == 0;
    }));
  });
}

// The daemon is of no use: messages depend on their sender.
TEST_F(AttachProcessTest, ADaemonThatHangsDelaysASenderOnce) {
  InWorld([](World world) {
    ASSERT_THAT(AttachProcess({.path = world.path}, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto queue, TensorQueue::Create());
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, NewTensor(3));
    world.signal_daemon(SIGSTOP);
    const absl::Time begin = absl::Now();
    for (int i = 0; i < 16; ++i) {
      ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
    }
    EXPECT_LT(absl::Now() - begin, absl::Seconds(4));
    EXPECT_EQ(GetProcessAttachment().unkept_names, 16u);
    EXPECT_THAT(GetProcessAttachment().status, StatusIs(kDeadlineExceeded));
    std::optional<Tensor> got;
    for (int i = 0; i < 16; ++i) ASSERT_TRUE(Gets(*queue, 3, &got));
    world.signal_daemon(SIGCONT);
  });
}

TEST_F(AttachProcessTest, AQuotaIsNoErrorOfTheMessage) {
  InWorld(
      [](World world) {
        ASSERT_THAT(AttachProcess({.path = world.path}, Soon()), IsOk());
        TENON_ASSERT_OK_AND_ASSIGN(const auto queue, TensorQueue::Create());
        for (int64_t i = 0; i < 3; ++i) {
          TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, NewTensor(i));
          ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
        }
        EXPECT_EQ(GetProcessAttachment().unkept_names, 1u);
        EXPECT_THAT(GetProcessAttachment().status, IsOk());
        std::optional<Tensor> got;
        for (int64_t i = 0; i < 3; ++i) ASSERT_TRUE(Gets(*queue, i, &got));
      },
      {.max_kept_names_per_client = 2});
}

// Names that were removed meanwhile make room before the daemon's next look at
// them is due.
TEST_F(AttachProcessTest, AtAQuotaNamesThatAreGoneMakeRoom) {
  InWorld(
      [](World world) {
        const absl::Time begin = absl::Now();
        for (int i = 0; i < 10; ++i) {
          TENON_ASSERT_OK_AND_ASSIGN(const Segment segment, CreateIn(kPrefix));
          EXPECT_TRUE(Becomes([&] {
            const absl::Status kept =
                world.client.KeepName(segment.name(), Soon());
            EXPECT_TRUE(kept.ok() || absl::IsResourceExhausted(kept)) << kept;
            return kept.ok();
          }));
        }
        EXPECT_LT(absl::Now() - begin, absl::Seconds(5));
      },
      {.max_kept_names_per_client = 1});
}

}  // namespace
}  // namespace tenon
