// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two releases meet: this process, and programs of another version of all
// layouts, or of the messages within these. The newcomer is refused by an error
// that names both versions. This process goes on: a program of its own release
// then gets everything, and no descriptor and no memory is left. Built twice:
// this test is of the older release, or of the newer one.

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_loan_testing.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/ring/ring_offer.h"
#include "tenon/ipc/ring/ring_producer.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/loader.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/wire_version.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/mount_namespace_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/spawn/process/start.h"

namespace tenon {
namespace {

using ::testing::ContainsRegex;

// A program of four: with the next versions, or these, of the layouts and of
// the messages that they carry.
std::string Program(bool next_carriers, bool next_messages) {
  return std::filesystem::absolute(
      absl::StrCat("tools/wire/wire_peer", next_carriers ? "_carriers" : "",
                   next_messages ? "_messages" : ""));
}
const bool kIsNext = kWireVersionStep != 0;

// Of this test's release; of another one; of one in which only the messages
// have changed.
std::string Same() { return Program(kIsNext, kIsNext); }
std::string OtherCarriers() { return Program(!kIsNext, kIsNext); }
std::string OtherMessages() { return Program(kIsNext, !kIsNext); }

// Another process, with `fds` as its descriptors from 3 on.
class PeerProgram {
 public:
  PeerProgram(const std::string& program, const std::string& what,
              const std::vector<int>& fds, const std::string& socket = "") {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    output_ = UniqueFd(ends[0]);
    const UniqueFd input(ends[1]);
    // Above all targets, so that none is overwritten before it is copied.
    constexpr int kAbove = 200;
    std::vector<UniqueFd> copies;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input.get(), STDOUT_FILENO);
    for (size_t i = 0; i < fds.size(); ++i) {
      copies.emplace_back(fcntl(fds[i], F_DUPFD_CLOEXEC, kAbove));
      posix_spawn_file_actions_adddup2(&actions, copies.back().get(),
                                       3 + static_cast<int>(i));
    }
    std::string words[] = {program, what, socket};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    EXPECT_EQ(
        posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environ),
        0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~PeerProgram() { Output(); }

  // What it prints until it ends.
  std::string Output() {
    char buffer[4096];
    for (ssize_t size; output_.valid() && (size = read(output_.get(), buffer,
                                                       sizeof(buffer))) > 0;) {
      text_.append(buffer, static_cast<size_t>(size));
    }
    output_.Reset();
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
    pid_ = -1;
    return text_;
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_;
  std::string text_;
};

// Of both releases, in either order.
auto NamesBothVersions() {
  return ContainsRegex("version [0-9]+.*version [0-9]+");
}

std::vector<int> WithFile(const UniqueFd& file, std::vector<int> fds) {
  fds.insert(fds.begin(), file.get());
  return fds;
}

UniqueFd FileOf(const std::string& bytes) {
  UniqueFd file(memfd_create("handle", MFD_CLOEXEC));
  EXPECT_EQ(write(file.get(), bytes.data(), bytes.size()),
            static_cast<ssize_t>(bytes.size()));
  return file;
}

// One object in which the programs meet, one after the other.
class Host {
 public:
  virtual ~Host() = default;
  // The status of a program that joins. One of this release must get all that
  // was sent, also to those before it.
  virtual std::string Meet(const std::string& program) = 0;
};

class ChannelHost final : public Host {
 public:
  std::string Meet(const std::string& program) override {
    auto ends = Channel::CreatePair();
    EXPECT_THAT(ends, IsOk());
    PeerProgram peer(program, "channel", {ends->second.fd()});
    { const UniqueFd theirs = ends->second.Release(); }
    EXPECT_THAT(ends->first.Send("hello", {}, Soon()), IsOk());
    const absl::StatusOr<Message> echo = ends->first.Receive(Soon());
    EXPECT_EQ(echo.ok(), program == Same()) << echo.status();
    if (echo.ok()) {
      EXPECT_EQ(echo->bytes, "hello");
    }
    return peer.Output();
  }
};

class RingHost final : public Host {
 public:
  std::string Meet(const std::string& program) override {
    const absl::StatusOr<RingOffer> offer = (*ring_)->Offer();
    EXPECT_THAT(offer, IsOk());
    const std::array<int, 3> fds = offer->fds.get();
    const UniqueFd file = FileOf(offer->message.ToBytes());
    PeerProgram peer(program, "ring", WithFile(file, {fds.begin(), fds.end()}));
    const std::string status = peer.Output();
    EXPECT_THAT((*ring_)->RemoveReader(offer->message.number), IsOk());
    return status;
  }

 private:
  const absl::StatusOr<std::unique_ptr<RingProducer>> ring_ =
      RingProducer::Create({});
};

std::string JoinQueue(const std::string& program, const char* what,
                      const absl::StatusOr<QueueHandle>& handle) {
  EXPECT_THAT(handle, IsOk());
  std::vector<int> fds;
  for (const UniqueFd& fd : handle->fds) fds.push_back(fd.get());
  const UniqueFd file = FileOf(handle->bytes);
  return PeerProgram(program, what, WithFile(file, fds)).Output();
}

class QueueHost final : public Host {
 public:
  QueueHost() { EXPECT_THAT(queue_->Put(1, Soon()), IsOk()); }
  std::string Meet(const std::string& program) override {
    const std::string status = JoinQueue(program, "queue", queue_->Share());
    if (program == Same()) {
      EXPECT_THAT(queue_->Get(Soon()), IsOkAndHolds(2u));
    }
    return status;
  }

 private:
  absl::StatusOr<Queue<uint64_t>> queue_ = Queue<uint64_t>::Create();
};

class TensorQueueHost final : public Host {
 public:
  std::string Meet(const std::string& program) override {
    // A program that reads no message of this version has dropped one.
    if ((*queue_)->empty()) PutOne();
    const std::string status =
        JoinQueue(program, "tensor_queue", (*queue_)->Share());
    if (program != Same()) return status;
    const absl::StatusOr<TensorMessage> reply = (*queue_)->Get(Soon());
    EXPECT_THAT(reply, IsOk());
    EXPECT_THAT((*queue_)->AwaitTaken(Deadline::Passed()), IsOk());
    EXPECT_EQ((*arena_)->Use().blocks_in_use, 0u);
    return status;
  }

 private:
  void PutOne() {
    absl::StatusOr<Tensor> tensor =
        (*queue_)->CreateTensor(kDtypeOf<float>, {1'000'000}, Soon());
    EXPECT_THAT(tensor, IsOk());
    EXPECT_THAT((*queue_)->Put(*tensor, Soon()), IsOk());
  }

  const absl::StatusOr<std::shared_ptr<Arena>> arena_ = Arena::Create({});
  const absl::StatusOr<std::unique_ptr<TensorQueue>> queue_ =
      TensorQueue::Create({.wait_when_alone = true}, {.arena = *arena_});
};

// A tensor in memory of cuMemAlloc that another library has allocated. Its
// lender is a process for each meeting, as a driver has threads.
class LoanHost final : public Host {
 public:
  LoanHost() { fake_.SetEnvironment(); }
  std::string Meet(const std::string& program) override {
    absl::StatusOr<QueueHandle> handle = (*queue_)->Share();
    EXPECT_THAT(handle, IsOk());
    auto lender =
        ForkedChild::Fork({.name = "lender", .watchdog = absl::Seconds(100)},
                          [&](const Reporter&) { Lend(*std::move(handle)); });
    EXPECT_THAT(lender, IsOk());
    const std::string status =
        JoinQueue(program, "device_tensor", (*queue_)->Share());
    if (program == Same()) {
      const absl::StatusOr<TensorMessage> reply = (*queue_)->Get(Soon());
      EXPECT_THAT(reply, IsOk());
      EXPECT_THAT(reply->integer(0), IsOkAndHolds(8));
    }
    EXPECT_TRUE(lender->EndsWell());
    return status;
  }

 private:
  void Lend(QueueHandle handle) {
    fake_.Reset(fake_.settings());
    ASSERT_THAT(cuda_ipc::GetDriver(), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto queue,
                               TensorQueue::Open(std::move(handle)));
    std::atomic<bool> freed = false;
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const auto memory,
          cuda_ipc::LibraryMemory::Create(4096, [&] { freed = true; }));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, memory.Numbers(0, 512));
      TENON_ASSERT_OK_AND_ASSIGN(const Tensor sevens,
                                 Tensor::Full({512}, int64_t{7}));
      ASSERT_THAT(tensor.CopyFrom(sevens), IsOk());
      ASSERT_THAT(queue->Put(tensor, Soon()), IsOk());
    }
    // The receiver has dropped the message, or the tensor.
    EXPECT_TRUE(Becomes([&] {
      TensorQueue::Reap();
      return freed.load();
    }));
  }

  cuda_ipc::FakeDriver fake_;
  const absl::StatusOr<std::unique_ptr<TensorQueue>> queue_ =
      TensorQueue::Create({.wait_when_alone = true});
};

class ArenaHost final : public Host {
 public:
  std::string Meet(const std::string& program) override {
    const auto block = (*arena_)->TryAllocate(4096);
    EXPECT_THAT(block, IsOk());
    const absl::StatusOr<ArenaOffer> offer = (*arena_)->Offer(*block);
    EXPECT_THAT(offer, IsOk());
    const UniqueFd file = FileOf(offer->bytes);
    return PeerProgram(program, "arena", WithFile(file, offer->fds)).Output();
  }

 private:
  const absl::StatusOr<std::shared_ptr<Arena>> arena_ = Arena::Create({});
};

class LoaderHost final : public Host {
 public:
  std::string Meet(const std::string& program) override {
    const absl::StatusOr<int64_t> sum = SumOfEpoch(program);
    if (sum.ok()) {
      EXPECT_EQ(*sum, 45);
    }
    return sum.status().ToString();
  }

 private:
  static absl::StatusOr<int64_t> SumOfEpoch(const std::string& program) {
    auto loader = loader::Loader::Create(
        "WireNumbers",
        {.batch_size = 4,
         .workers = 1,
         .worker_program = loader::WorkerProgram{.program = program}},
        int64_t{10});
    if (!loader.ok()) return loader.status();
    int64_t sum = 0;
    for (absl::StatusOr<loader::Batch>& batch : (*loader)->Epoch(0)) {
      if (!batch.ok()) return batch.status();
      const auto values = batch->data<int64_t>("value");
      if (!values.ok()) return values.status();
      for (const int64_t value : *values) sum += value;
    }
    return sum;
  }
};

// A child of another program.
class ChildHost final : public Host {
 public:
  std::string Meet(const std::string& program) override {
    auto child = spawn::Start(1, "Live", {.program = program});
    if (!child.ok()) return child.status().ToString();
    return child->Join(Soon()).ToString();
  }
};

// The daemon of names, in a /dev/shm of its own, as it removes dead names.
class NamesHost final : public Host {
 public:
  NamesHost() {
    EXPECT_THAT(daemon_, IsOk());
    EXPECT_THAT(AttachTo(folder_.path()), IsOk());
  }
  std::string Meet(const std::string& program) override {
    const std::string status =
        PeerProgram(program, "names", {}, folder_.path()).Output();
    EXPECT_THAT(AttachTo(folder_.path()), IsOk());
    return status;
  }

 private:
  const ManagerFolder folder_;
  const absl::StatusOr<ForkedChild> daemon_ = ForkedChild::Fork(
      {.name = "daemon", .watchdog = absl::Seconds(100)}, [&](const Reporter&) {
        ASSERT_TRUE(EnterOwnMountNamespace());
        ASSERT_TRUE(MountTmpfs("/dev/shm", "size=1m"));
        TENON_ASSERT_OK_AND_ASSIGN(const auto manager,
                                   Manager::Create(folder_.path(), {}));
        EXPECT_THAT(manager->Run(-1), IsOk());
      });
};

template <typename H>
std::unique_ptr<Host> Make() {
  return std::make_unique<H>();
}

struct Meeting {
  const char* name;
  std::unique_ptr<Host> (*host)();
  // The release that is refused.
  std::string (*other)();
};

class WireTest : public testing::TestWithParam<Meeting> {};

TEST_P(WireTest, AnotherReleaseIsRefusedAndThisOneGoesOn) {
  if (GetParam().host == &Make<NamesHost> && !CanEnterOwnMountNamespace()) {
    GTEST_SKIP() << kNoMountNamespace;
  }
  const auto meet = [] {
    const std::unique_ptr<Host> host = GetParam().host();
    EXPECT_THAT(host->Meet(GetParam().other()), NamesBothVersions());
    EXPECT_EQ(host->Meet(Same()), "OK");
  };
  meet();  // What a process makes once, it has then.
  const size_t fds = CountOpenFds();
  meet();
  EXPECT_EQ(CountOpenFds(), fds);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, WireTest,
    testing::Values(Meeting{"names", &Make<NamesHost>, &OtherCarriers},
                    Meeting{"channel", &Make<ChannelHost>, &OtherCarriers},
                    Meeting{"ring", &Make<RingHost>, &OtherCarriers},
                    Meeting{"queue", &Make<QueueHost>, &OtherCarriers},
                    Meeting{"tensor_queue", &Make<TensorQueueHost>,
                            &OtherCarriers},
                    Meeting{"arena", &Make<ArenaHost>, &OtherCarriers},
                    Meeting{"child", &Make<ChildHost>, &OtherCarriers},
                    Meeting{"loader", &Make<LoaderHost>, &OtherCarriers}),
    [](const auto& meeting) { return std::string(meeting.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Messages, WireTest,
    testing::Values(Meeting{"names", &Make<NamesHost>, &OtherMessages},
                    Meeting{"tensor_queue", &Make<TensorQueueHost>,
                            &OtherMessages},
                    Meeting{"device_loan", &Make<LoanHost>, &OtherMessages},
                    Meeting{"child", &Make<ChildHost>, &OtherMessages},
                    Meeting{"loader", &Make<LoaderHost>, &OtherMessages}),
    [](const auto& meeting) { return std::string(meeting.param.name); });

}  // namespace
}  // namespace tenon
