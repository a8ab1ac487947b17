// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two peers send 10,000 messages to each other at once, some with descriptors.
// The same body runs in threads, for ThreadSanitizer, which does not see across
// processes, and in processes, as channels are meant to be used.

#include <sys/stat.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::SizeIs;

constexpr uint64_t kMessages = 10'000;
// The unread descriptors of two sockets must stay below the limit in flight,
// which may be as low as 1,024 for all processes of this user.
constexpr uint64_t kMessagesPerFds = 8;
constexpr size_t kFiles = 3;

// The file's identity, by which the receiver recognises it.
uint64_t Inode(int fd) {
  struct stat file;
  EXPECT_EQ(fstat(fd, &file), 0);
  return file.st_ino;
}

size_t FdCount(uint64_t i) {
  return i % kMessagesPerFds == 0 ? 1 + i / kMessagesPerFds % kFiles : 0;
}

void SendAll(Channel* channel) {
  std::vector<UniqueFd> files;
  std::vector<int> fds;
  for (size_t i = 0; i < kFiles; ++i) {
    files.push_back(FileWith("x"));
    fds.push_back(files.back().get());
  }
  for (uint64_t i = 0; i < kMessages; ++i) {
    ArchiveWriter writer;
    writer.Put(i);
    for (size_t k = 0; k < FdCount(i); ++k) writer.Put(Inode(fds[k]));
    writer.PutString(std::string(i % 100, 'x'));
    ASSERT_THAT(
        channel->Send(writer.bytes(), {fds.data(), FdCount(i)}, Watchdog()),
        IsOk());
  }
}

void ReceiveAll(Channel* channel) {
  for (uint64_t i = 0; i < kMessages; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Message message,
                               channel->Receive(Watchdog()));
    ArchiveReader reader(message.bytes);
    ASSERT_THAT(reader.Get<uint64_t>(), IsOkAndHolds(i));
    ASSERT_THAT(message.fds, SizeIs(FdCount(i)));
    for (const UniqueFd& fd : message.fds) {
      ASSERT_THAT(reader.Get<uint64_t>(), IsOkAndHolds(Inode(fd.get())));
    }
    ASSERT_THAT(reader.GetString(), IsOkAndHolds(SizeIs(i % 100)));
    ASSERT_THAT(reader.Finish(), IsOk());
  }
}

// One peer: sends and receives at the same time, in a thread each.
void RunPeer(UniqueFd socket) {
  TENON_ASSERT_OK_AND_ASSIGN(Channel channel,
                             Channel::Adopt(std::move(socket)));
  std::thread sender([&] { SendAll(&channel); });
  ReceiveAll(&channel);
  sender.join();
}

TEST(ChannelTwoPeersTest, InThreads) {
  auto [one, two] = SocketPair();
  const size_t fds_before = CountOpenFds();
  std::thread peer([&end = two] { RunPeer(std::move(end)); });
  RunPeer(std::move(one));
  peer.join();
  EXPECT_EQ(CountOpenFds(), fds_before - 2);
}

TEST(ChannelTwoPeersTest, InProcesses) {
  auto [one, two] = SocketPair();
  const pid_t child = StartChild([&own = one, &other = two] {
    other.Reset();
    RunPeer(std::move(own));
  });
  one.Reset();
  RunPeer(std::move(two));
  EXPECT_EQ(ExitCodeOf(child), 0);
}

}  // namespace
}  // namespace tenon
