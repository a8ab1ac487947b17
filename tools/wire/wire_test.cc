// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two releases meet in one channel, queue, arena and loader: this process, and
// programs of the same and of another version of all layouts and messages. Of
// one version they work together; of two, the newcomer refuses by an error that
// names both, and this process goes on. Built for both: this test is of the
// older release, or of the newer one.

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/loader.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/base/wire_version.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

std::string Program(bool is_next) {
  return std::filesystem::absolute(is_next ? "tools/wire/wire_peer_next"
                                           : "tools/wire/wire_peer");
}
const bool kIsNext = kWireVersionStep != 0;
std::string Same() { return Program(kIsNext); }
std::string Other() { return Program(!kIsNext); }

// Another process, with `fds` as its descriptors from 3 on.
class PeerProgram {
 public:
  PeerProgram(const std::string& program, const char* what,
              const std::vector<int>& fds) {
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
    std::string words[] = {program, what};
    char* argv[] = {words[0].data(), words[1].data(), nullptr};
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

TEST(WireTest, Channel) {
  for (const bool same : {true, false}) {
    TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
    PeerProgram peer(same ? Same() : Other(), "channel", {ends.second.fd()});
    const UniqueFd theirs = ends.second.Release();
    ASSERT_THAT(ends.first.Send("hello", {}, Soon()), IsOk());
    if (same) {
      TENON_ASSERT_OK_AND_ASSIGN(const Message echo,
                                 ends.first.Receive(Soon()));
      EXPECT_EQ(echo.bytes, "hello");
      EXPECT_EQ(peer.Output(), "OK");
    } else {
      EXPECT_THAT(peer.Output(), NamesBothVersions());
    }
  }
}

TEST(WireTest, Queue) {
  TENON_ASSERT_OK_AND_ASSIGN(auto queue, Queue<uint64_t>::Create());
  for (const bool same : {false, true}) {
    TENON_ASSERT_OK_AND_ASSIGN(const QueueHandle handle, queue.Share());
    std::vector<int> fds;
    for (const UniqueFd& fd : handle.fds) fds.push_back(fd.get());
    const UniqueFd file = FileOf(handle.bytes);
    PeerProgram peer(same ? Same() : Other(), "queue", WithFile(file, fds));
    if (same) {
      ASSERT_THAT(queue.Put(1, Soon()), IsOk());
      EXPECT_EQ(peer.Output(), "OK");
      EXPECT_THAT(queue.Get(Soon()), IsOkAndHolds(2u));
    } else {
      EXPECT_THAT(peer.Output(), NamesBothVersions());
    }
  }
}

TEST(WireTest, Arena) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create({}));
  for (const bool same : {false, true}) {
    TENON_ASSERT_OK_AND_ASSIGN(const Block block, arena->TryAllocate(4096));
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, arena->Offer(block));
    const UniqueFd file = FileOf(offer.bytes);
    PeerProgram peer(same ? Same() : Other(), "arena",
                     WithFile(file, offer.fds));
    if (same) {
      EXPECT_EQ(peer.Output(), "OK");
    } else {
      EXPECT_THAT(peer.Output(), NamesBothVersions());
    }
  }
  EXPECT_THAT(arena->TryAllocate(4096), IsOk());
}

absl::StatusOr<int64_t> SumOfEpoch(const std::string& program) {
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

TEST(WireTest, Loader) {
  EXPECT_THAT(SumOfEpoch(Same()), IsOkAndHolds(45));
  const absl::Status refused = SumOfEpoch(Other()).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), NamesBothVersions());
}

}  // namespace
}  // namespace tenon
