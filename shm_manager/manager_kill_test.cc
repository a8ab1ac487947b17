// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A client that creates, a client that opens, and the daemon are killed at each
// step: nothing is lost that a living process holds, and the next daemon
// removes all the rest.

#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/attach_process.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/shm_manager/torch_storage.h"
#include "tenon/shm_manager/torch_testing.h"

namespace tenon {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kForeign[] = "/dev/shm/of-another-program";

auto MayBeDead() {
  return AnyOf(IsOk(), StatusIs(absl::StatusCode::kUnavailable));
}

class World {
 public:
  explicit World(size_t victims) : victims_(victims) {}

  const std::string& path() const { return path_; }

  // Leaves a dead name and the socket file of a dead daemon.
  void Prepare() {
    EXPECT_FALSE(PassesInChild([&] {
      const auto daemon = Manager::Create(path_, {});
      const auto segment = CreateIn("dead");
      raise(SIGKILL);
    }));
  }

  // Serves until the opener has ended.
  void Serve(Peer& self) {
    const auto opener = self.TakeFd("opener");
    if (!opener.ok()) return;
    TENON_ASSERT_OK_AND_ASSIGN(const auto manager, Manager::Create(path_, {}));
    self.Step("listening");
    EXPECT_THAT(manager->Run(opener->get()), IsOk());
  }

  // Creates a segment and keeps its name.
  void Own(Peer& self) {
    if (!self.Await("daemon", "listening").ok()) return;
    auto client = ManagerClient::Attach({.path = path_}, Soon());
    EXPECT_THAT(client, MayBeDead());
    TENON_ASSERT_OK_AND_ASSIGN(Segment segment, CreateIn("owned"));
    if (client.ok()) {
      const absl::Status kept = client->KeepName(segment.name(), Soon());
      EXPECT_THAT(kept, MayBeDead());
      if (kept.ok()) {
        self.Step("kept");
        self.Await("opener", "opened").IgnoreError();  // It may be killed.
      }
    }
    EXPECT_THAT(segment.Unlink(), IsOk());
  }

  // Opens the segment, even if its owner has been killed, and releases it.
  void Open(Peer& self) {
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd self_fd, PidFd::Open(getpid()));
    if (!self.GiveFd("daemon", self_fd.fd()).ok()) return;
    if (!self.Await("daemon", "listening").ok()) return;
    auto client = ManagerClient::Attach({.path = path_}, Soon());
    EXPECT_THAT(client, MayBeDead());
    if (!self.Await("owner", "kept").ok()) return;
    const auto names = ListShmNames("owned");
    ASSERT_THAT(names, IsOk());
    if (names->empty() && victims_ > 1) return;
    ASSERT_EQ(names->size(), 1u);
    const auto segment =
        Segment::Open(names->at(0), SegmentKind::kSharedWritable);
    if (victims_ == 1) {
      EXPECT_THAT(segment, IsOk());
    }
    self.Step("opened");
    if (client.ok()) {
      EXPECT_THAT(client->ReleaseName(names->at(0), Soon()), MayBeDead());
    }
  }

  // The next daemon replaces the socket, and removes all that is dead.
  void Check() {
    const UniqueFd stop(eventfd(1, EFD_CLOEXEC));
    // A process that is being killed holds its locks a little longer.
    EXPECT_TRUE(Becomes([&] {
      const auto next = Manager::Create(path_, {});
      EXPECT_THAT(next, IsOk());
      if (next.ok()) {
        EXPECT_THAT((*next)->Run(stop.get()), IsOk());
      }
      return CountNames("owned") + CountNames("dead") == 0;
    }));
    EXPECT_EQ(CountNames("alive"), 1u);
    EXPECT_EQ(access(kForeign, F_OK), 0);
  }

 private:
  const ManagerFolder folder_;
  const std::string path_ = folder_.path();
  const size_t victims_;
};

struct Matrix {
  std::string points;
  KillMethod method = KillMethod::kKill;
  size_t victims = 1;
  // Of which all are reached.
  bool complete = true;
};

// A message with a name: its sender leaves at once, and either end is killed.
class MessageWorld {
 public:
  const std::string& path() const { return path_; }

  void Prepare() {
    queue_ = TensorQueue::Create({.capacity = 4}).value();
    for (QueueHandle& handle : handles_) handle = queue_->Share().value();
  }

  void Serve(Peer& self) {
    const auto receiver = self.TakeFd("receiver");
    if (!receiver.ok()) return;
    TENON_ASSERT_OK_AND_ASSIGN(const auto manager, Manager::Create(path_, {}));
    self.Step("listening");
    EXPECT_THAT(manager->Run(receiver->get()), IsOk());
  }

  void Send(Peer& self) {
    if (!self.Await("daemon", "listening").ok()) return;
    EXPECT_THAT(AttachProcess({.path = path_}, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(auto queue,
                               TensorQueue::Open(std::move(handles_[0])));
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Tensor tensor,
          Tensor::CreateShared(
              kDtypeOf<int64_t>, {16},
              {.segment = {.strategy = SharingStrategy::kFileSystem,
                           .name_prefix = "owned"}}));
      ASSERT_THAT(tensor.Fill(int64_t{7}), IsOk());
      ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
      queue.reset();
    }
    EXPECT_EQ(GetProcessAttachment().unkept_names, 0u);
    self.Step("left");
    self.Await("receiver", "got").IgnoreError();  // It may be killed.
  }

  void Receive(Peer& self) {
    TENON_ASSERT_OK_AND_ASSIGN(const PidFd self_fd, PidFd::Open(getpid()));
    if (!self.GiveFd("daemon", self_fd.fd()).ok()) return;
    if (!self.Await("daemon", "listening").ok()) return;
    EXPECT_THAT(AttachProcess({.path = path_}, Soon()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(auto queue,
                               TensorQueue::Open(std::move(handles_[1])));
    // If the sender has been killed, the message may have been sent all the
    // same.
    const bool has_left = self.Await("sender", "left").ok();
    const auto tensor = queue->GetTensor(
        has_left ? Soon() : Deadline::After(absl::Milliseconds(100)));
    if (tensor.ok()) {
      EXPECT_EQ(**tensor->at<const int64_t>({15}), 7);
    } else {
      EXPECT_FALSE(has_left) << tensor.status();
      EXPECT_THAT(tensor.status(),
                  AnyOf(StatusIs(absl::StatusCode::kDeadlineExceeded),
                        StatusIs(absl::StatusCode::kUnavailable)));
    }
    self.Step("got");
  }

  void Check() {
    queue_.reset();
    const UniqueFd stop(eventfd(1, EFD_CLOEXEC));
    EXPECT_TRUE(Becomes([&] {
      const auto next = Manager::Create(path_, {});
      EXPECT_THAT(next, IsOk());
      if (next.ok()) {
        EXPECT_THAT((*next)->Run(stop.get()), IsOk());
      }
      return CountNames("owned") == 0;
    }));
  }

 private:
  const ManagerFolder folder_;
  const std::string path_ = folder_.path();
  std::unique_ptr<TensorQueue> queue_;
  QueueHandle handles_[2];
};

// Expects that processes were killed or stopped, and that no check failed.
KillReport RunChecked(const KillScenario& scenario) {
  KillReport report = RunKillMatrix(scenario);
  std::cout << report.ToString();
  EXPECT_TRUE(report.failures.empty()) << report.ToString();
  EXPECT_FALSE(report.given_up);
  EXPECT_GT(report.kills, 0u);
  return report;
}

void RunMatrix(const Matrix& matrix) {
  EXPECT_TRUE(InOwnShm([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment alive, CreateIn("alive"));
    const int foreign = open(kForeign, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(foreign, 0);
    World world(matrix.victims);
    KillScenario scenario;
    scenario.name = "manager";
    scenario.method = matrix.method;
    scenario.victims = matrix.victims;
    scenario.points = matrix.points;
    scenario.prepare = [&] { world.Prepare(); };
    scenario.roles = {{"daemon", [&](Peer& self) { world.Serve(self); }},
                      {"owner", [&](Peer& self) { world.Own(self); }},
                      {"opener", [&](Peer& self) { world.Open(self); }}};
    scenario.check = [&](const Reporter&, const std::vector<KillOrder>&) {
      world.Check();
    };
    const Census before = TakeCensus();
    const KillReport report = RunChecked(scenario);
    if (matrix.complete) {
      EXPECT_THAT(report.unreached, IsEmpty());
    }
    EXPECT_TRUE(ExpectSame(before, TakeCensus()));
    close(foreign);
    EXPECT_EQ(CountNames("alive"), 1u);
  }));
}

// Two processes that speak torch's protocol share two files, by a daemon. One
// of them ends without dropping its reference to the first file.
class TorchWorld {
 public:
  explicit TorchWorld(size_t victims) : victims_(victims) {}

  void Serve(Peer& self) {
    ManagerOptions options = WithTorch(folder_);
    options.idle_exit = absl::ZeroDuration();
    TENON_ASSERT_OK_AND_ASSIGN(const auto manager,
                               Manager::Create(folder_.path(), options));
    self.Step("listening");
    // Until both have ended.
    EXPECT_THAT(manager->Run(-1), IsOk());
  }

  void Own(Peer& self) {
    if (!self.Await("daemon", "listening").ok()) return;
    const TorchConnection torch(TorchPath(folder_));
    // Without the daemon torch creates no files.
    for (const char* name : {kFirst, kSecond}) {
      if (torch.valid() && torch.Register(name) == "OK") {
        EXPECT_TRUE(MakeTorchFile(name, 1));
      }
    }
    self.Step("shared");
    self.Await("opener", "opened").IgnoreError();  // It may be killed.
    const int32_t references = ReferencesOf(kSecond);
    if (references >= 0) SetReferences(kSecond, references - 1);
    if (torch.valid()) torch.Deregister(kSecond);
    self.Step("closed");
  }

  void Open(Peer& self) {
    if (!self.Await("owner", "shared").ok()) return;
    std::vector<TorchStorage> storages;
    for (const char* name : {kFirst, kSecond}) {
      auto storage = TorchStorage::Open(TorchPath(folder_),
                                        absl::StrCat("/", name), 8, Soon());
      if (storage.ok()) storages.push_back(*std::move(storage));
    }
    self.Step("opened");
    self.Await("owner", "closed").IgnoreError();
    for (const TorchStorage& storage : storages) {
      if (victims_ == 1) {
        EXPECT_TRUE(TorchFileExists(storage.name().substr(1)));
      }
    }
  }

  void Check(const std::vector<KillOrder>& fired) {
    const bool without_daemon = std::any_of(
        fired.begin(), fired.end(),
        [](const KillOrder& order) { return order.role == "daemon"; });
    for (const char* name : {kFirst, kSecond}) {
      if (without_daemon) {  // Its table is lost.
        shm_unlink(absl::StrCat("/", name).c_str());
      } else {
        EXPECT_FALSE(TorchFileExists(name)) << name;
      }
    }
    const UniqueFd stop(eventfd(1, EFD_CLOEXEC));
    const auto next = Manager::Create(folder_.path(), WithTorch(folder_));
    EXPECT_THAT(next, IsOk());
    if (next.ok()) {
      EXPECT_THAT((*next)->Run(stop.get()), IsOk());
    }
    EXPECT_EQ(access(kForeign, F_OK), 0);
  }

 private:
  static constexpr char kFirst[] = "torch_3_1";
  static constexpr char kSecond[] = "torch_3_2";

  const ManagerFolder folder_;
  const TorchSocketGuard guard_{folder_};
  const size_t victims_;
};

void RunTorchMatrix(const Matrix& matrix) {
  EXPECT_TRUE(InOwnShm([&] {
    const int foreign = open(kForeign, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    ASSERT_GE(foreign, 0);
    TorchWorld world(matrix.victims);
    KillScenario scenario;
    scenario.name = "torch";
    scenario.method = matrix.method;
    scenario.victims = matrix.victims;
    scenario.points = matrix.points;
    scenario.roles = {{"daemon", [&](Peer& self) { world.Serve(self); }},
                      {"owner", [&](Peer& self) { world.Own(self); }},
                      {"opener", [&](Peer& self) { world.Open(self); }}};
    scenario.check = [&](const Reporter&, const std::vector<KillOrder>& fired) {
      world.Check(matrix.method == KillMethod::kKill
                      ? fired
                      : std::vector<KillOrder>());
    };
    const Census before = TakeCensus();
    const KillReport report = RunChecked(scenario);
    if (matrix.complete) {
      EXPECT_THAT(report.unreached, IsEmpty());
    }
    EXPECT_TRUE(ExpectSame(before, TakeCensus()));
    close(foreign);
  }));
}

class ManagerKillTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!CanEnterOwnMountNamespace()) GTEST_SKIP() << kNoMountNamespace;
  }
};

TEST_F(ManagerKillTest, TheDaemonAtEachOfItsSteps) {
  RunMatrix({.points = "manager."});
}
TEST_F(ManagerKillTest, WhileItRemovesNames) {
  RunMatrix({.points = "segment.reclaim."});
}
TEST_F(ManagerKillTest, AClientThatCreates) {
  RunMatrix({.points = "segment.named."});
}
TEST_F(ManagerKillTest, AClientThatOpens) {
  RunMatrix({.points = "segment.open.", .complete = false});
}
TEST_F(ManagerKillTest, AClientThatUnlinks) {
  RunMatrix({.points = "segment.unlink."});
}
TEST_F(ManagerKillTest, EachWhereItListensConnectsAndAttaches) {
  for (const char* points : {"listener.", "connect.", "handshake."}) {
    RunMatrix({.points = points});
  }
}
TEST_F(ManagerKillTest, DaemonAndClientsTogether) {
  for (const char* points : {"segment.", "handshake.", "manager."}) {
    RunMatrix({.points = points, .victims = 2, .complete = false});
  }
}
TEST_F(ManagerKillTest, TheListenerForTorchAndAClientOfIt) {
  RunTorchMatrix({.points = "torch."});
}
TEST_F(ManagerKillTest, TheListenerForTorchAndAClientTogether) {
  RunTorchMatrix({.points = "torch.", .victims = 2, .complete = false});
}
TEST_F(ManagerKillTest, TorchIsSlowAndNotDead) {
  RunTorchMatrix({.points = "torch.", .method = KillMethod::kStop});
}
TEST_F(ManagerKillTest, EitherEndOfAMessageWithAName) {
  EXPECT_TRUE(InOwnShm([] {
    MessageWorld world;
    KillScenario scenario;
    scenario.name = "message";
    scenario.points = "tensor_";
    scenario.prepare = [&] { world.Prepare(); };
    scenario.roles = {{"daemon", [&](Peer& self) { world.Serve(self); }},
                      {"sender", [&](Peer& self) { world.Send(self); }},
                      {"receiver", [&](Peer& self) { world.Receive(self); }}};
    scenario.check = [&](const Reporter&, const std::vector<KillOrder>&) {
      world.Check();
    };
    const KillReport report = RunChecked(scenario);
    EXPECT_GE(report.kills, 5u);
    // A name needs no descriptor.
    EXPECT_THAT(report.unreached, ElementsAre("tensor_queue.fds_published"));
  }));
}
TEST_F(ManagerKillTest, SlowIsNotDead) {
  for (const char* points : {"manager.", "segment.named.", "segment.open."}) {
    RunMatrix(
        {.points = points, .method = KillMethod::kStop, .complete = false});
  }
}

}  // namespace
}  // namespace tenon
