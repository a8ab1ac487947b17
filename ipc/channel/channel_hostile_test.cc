// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A channel whose peer sends arbitrary data. Each bad message costs one error;
// no descriptor stays open, and the next good message is received.

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/channel/frame.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using absl::StatusCode::kDataLoss;
using absl::StatusCode::kUnavailable;

class ChannelHostileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto [socket, peer] = SocketPair();
    peer_ = std::move(peer);
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel,
                               Channel::Adopt(std::move(socket)));
    channel_.emplace(std::move(channel));
    file_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
    fds_before_ = CountOpenFds();
  }

  Channel& channel() { return *channel_; }
  int peer() const { return peer_.get(); }
  void ClosePeer() {
    peer_.Reset();
    --fds_before_;
  }
  // `count` times a descriptor to send.
  std::vector<int> Fds(size_t count) const {
    return std::vector<int>(count, file_.get());
  }

  void ExpectNothingLeftOpenAndUsable() {
    EXPECT_EQ(CountOpenFds(), fds_before_);
    ASSERT_TRUE(SendRaw(peer(), GoodFrame("good", 1), Fds(1)));
    TENON_ASSERT_OK_AND_ASSIGN(const Message message,
                               channel().Receive(Watchdog()));
    EXPECT_EQ(message.bytes, "good");
    EXPECT_THAT(message.fds, SizeIs(1));
  }

 private:
  UniqueFd peer_;
  std::optional<Channel> channel_;
  UniqueFd file_;
  size_t fds_before_ = 0;
};

std::string FrameOf(const FrameHeader& header, absl::string_view payload = "") {
  std::string frame(sizeof(header), '\0');
  std::memcpy(frame.data(), &header, sizeof(header));
  return frame.append(payload.data(), payload.size());
}

struct Attack {
  std::string name;
  std::string datagram;
  size_t fds;
  std::string error;
};

std::vector<Attack> Attacks() {
  const size_t max = Channel::kMaxBytes;
  return {
      {"Empty", "", 0, "it has 0 bytes"},
      {"EmptyWithFds", "", 3, "it has 0 bytes"},
      {"OneByte", "x", 0, "it has 1 bytes"},
      {"ShortHeader", GoodFrame("").substr(0, 15), 0, "it has 15 bytes"},
      {"ShortHeaderWithFds", GoodFrame("").substr(0, 15), 3, "it has 15"},
      {"WrongMagic", FrameOf({.magic = 0x20544547}), 0, "0x20544547"},
      {"WrongMagicWithFds", FrameOf({.magic = 0x20544547}), 253, "0x2054"},
      {"LengthTooLarge", FrameOf({.payload_bytes = 4}, "abc"), 0,
       "announces 4 bytes but has 3"},
      {"LengthTooSmall", FrameOf({.payload_bytes = 2}, "abc"), 0,
       "announces 2 bytes but has 3"},
      {"LengthHuge", FrameOf({.payload_bytes = 0xffffffff}, "abc"), 1,
       "announces 4294967295 bytes but has 3"},
      {"MoreFdsThanAnnounced", GoodFrame("abc", 1), 2,
       "announces 1 descriptors but came with 2"},
      {"FewerFdsThanAnnounced", GoodFrame("abc", 3), 2,
       "announces 3 descriptors but came with 2"},
      {"FdsWhereNoneAreAnnounced", GoodFrame("abc", 0), 253,
       "announces 0 descriptors but came with 253"},
      {"NoFdsWhereSomeAreAnnounced", GoodFrame("abc", 1), 0,
       "announces 1 descriptors but came with 0"},
      {"FdCountHuge", GoodFrame("abc", 0xffff), 1,
       "announces 65535 descriptors but came with 1"},
      {"OtherKind", FrameOf({.kind = static_cast<FrameKind>(3)}), 0,
       "unknown kind 3"},
      {"EndWithDescriptor", FrameOf({.fd_count = 1, .kind = FrameKind::kEnd}),
       1, "an end with"},
      {"SegmentWithoutDescriptor",
       FrameOf({.payload_bytes = 8, .kind = FrameKind::kBytesInSegment},
               "12345678"),
       0, "names a segment"},
      {"OneByteOverTheLimit", GoodFrame(std::string(max + 1, 'x')), 0,
       "it exceeds 65552 bytes"},
      {"FarOverTheLimitWithFds", GoodFrame(std::string(2 * max, 'x'), 3), 3,
       "it exceeds 65552 bytes"},
      // The part that is read is a whole frame, but the datagram is longer.
      {"CutsToAWholeFrame",
       FrameOf({.payload_bytes = static_cast<uint32_t>(max)},
               std::string(max + 1, 'x')),
       0, "it exceeds 65552 bytes"},
  };
}

class ChannelAttackTest : public ChannelHostileTest,
                          public ::testing::WithParamInterface<Attack> {};

TEST_P(ChannelAttackTest, CostsAnErrorAndNothingElse) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_TRUE(SendRaw(peer(), GetParam().datagram, Fds(GetParam().fds)));
    EXPECT_THAT(channel().Receive(Watchdog()),
                StatusIs(kDataLoss, AllOf(HasSubstr("malformed frame"),
                                          HasSubstr(GetParam().error))));
    ExpectNothingLeftOpenAndUsable();
  }
}

INSTANTIATE_TEST_SUITE_P(Attacks, ChannelAttackTest,
                         ::testing::ValuesIn(Attacks()),
                         [](const auto& test) { return test.param.name; });

TEST_F(ChannelHostileTest, OtherVersionTellsBoth) {
  ASSERT_TRUE(SendRaw(peer(), FrameOf({.version = 3, .fd_count = 1}), Fds(1)));
  EXPECT_THAT(
      channel().Receive(Watchdog()),
      StatusIs(kDataLoss, AllOf(HasSubstr("version 3"), HasSubstr("version 2"),
                                HasSubstr("one version of Tenon"))));
  ExpectNothingLeftOpenAndUsable();
}

TEST_F(ChannelHostileTest, FloodOfBadFramesHidesNoGoodOne) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(SendRaw(peer(), "bad", Fds(5)));
  }
  ASSERT_TRUE(SendRaw(peer(), GoodFrame("good")));
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kDataLoss));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const Message message,
                             channel().Receive(Watchdog()));
  EXPECT_EQ(message.bytes, "good");
  ExpectNothingLeftOpenAndUsable();
}

// Sends credentials, which the kernel passes on only if the receiver asked.
bool SendWithCredentials(int socket, absl::string_view bytes) {
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  const ucred credentials = {.pid = getpid(), .uid = getuid(), .gid = getgid()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(credentials))] = {};
  msghdr message = {.msg_iov = &part,
                    .msg_iovlen = 1,
                    .msg_control = control,
                    .msg_controllen = sizeof(control)};
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_CREDENTIALS;
  header->cmsg_len = CMSG_LEN(sizeof(credentials));
  std::memcpy(CMSG_DATA(header), &credentials, sizeof(credentials));
  return sendmsg(socket, &message, MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

TEST_F(ChannelHostileTest, UnrequestedCredentialsDoNotArrive) {
  ASSERT_TRUE(SendWithCredentials(peer(), GoodFrame("x")));
  EXPECT_THAT(channel().Receive(Watchdog()), IsOk());
  ExpectNothingLeftOpenAndUsable();
}

// A process with a duplicate of the channel's own socket can change its options
// unnoticed. With 253 descriptors beside it, everything still fits.
void ExpectOptionCostsAnErrorAMessage(Channel* channel, int option, int peer,
                                      const std::vector<int>& fds) {
  const int on = 1, off = 0;
  ASSERT_EQ(setsockopt(channel->fd(), SOL_SOCKET, option, &on, sizeof(on)), 0);
  ASSERT_TRUE(SendRaw(peer, GoodFrame("x", fds.size()), fds));
  EXPECT_THAT(channel->Receive(Watchdog()),
              StatusIs(kDataLoss, HasSubstr("control data other than")));
  ASSERT_EQ(setsockopt(channel->fd(), SOL_SOCKET, option, &off, sizeof(off)),
            0);
}

TEST_F(ChannelHostileTest, CredentialsSwitchedOnAreDataLoss) {
  for (const size_t count : {size_t{0}, Channel::kMaxFds}) {
    ExpectOptionCostsAnErrorAMessage(&channel(), SO_PASSCRED, peer(),
                                     Fds(count));
    ExpectNothingLeftOpenAndUsable();
  }
}

TEST_F(ChannelHostileTest, PidFdSwitchedOnIsDataLossAndClosed) {
  constexpr int kSoPassPidFd = 76;  // Since Linux 6.5.
  const int off = 0;
  if (setsockopt(channel().fd(), SOL_SOCKET, kSoPassPidFd, &off, sizeof(off)) !=
      0) {
    GTEST_SKIP() << "this kernel has no SO_PASSPIDFD";
  }
  for (const size_t count : {size_t{0}, Channel::kMaxFds}) {
    ExpectOptionCostsAnErrorAMessage(&channel(), kSoPassPidFd, peer(),
                                     Fds(count));
    ExpectNothingLeftOpenAndUsable();
  }
}

TEST_F(ChannelHostileTest, PeerThatStopsSendingIsGoneForReceive) {
  ASSERT_TRUE(SendRaw(peer(), GoodFrame("last")));
  ASSERT_EQ(shutdown(peer(), SHUT_WR), 0);
  EXPECT_THAT(channel().Receive(Watchdog()), IsOk());
  EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kUnavailable));
  EXPECT_THAT(channel().Send("still", {}, Watchdog()), IsOk());
}

TEST_F(ChannelHostileTest, PeerThatStopsReceivingIsGoneForSend) {
  ASSERT_EQ(shutdown(peer(), SHUT_RD), 0);
  EXPECT_THAT(channel().Send("x", {}, Watchdog()), StatusIs(kUnavailable));
  ExpectNothingLeftOpenAndUsable();
}

// recvmsg() reports an empty datagram like the end.
TEST_F(ChannelHostileTest, EmptyDatagramIsNotTakenForTheEnd) {
  for (const size_t fds : {0, 2}) {
    ASSERT_TRUE(SendRaw(peer(), "", Fds(fds)));
    ASSERT_TRUE(SendRaw(peer(), "", Fds(fds)));
    EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kDataLoss));
    EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kDataLoss));
    ExpectNothingLeftOpenAndUsable();
  }
}

TEST_F(ChannelHostileTest, EmptyDatagramOfAGonePeerHidesNoGoodOne) {
  for (const size_t fds : {0, 2}) {
    ASSERT_TRUE(SendRaw(peer(), "", Fds(fds)));
  }
  ASSERT_TRUE(SendRaw(peer(), GoodFrame("good")));
  ClosePeer();
  EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kDataLoss));
  EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kDataLoss));
  EXPECT_THAT(channel().Receive(Watchdog()), IsOk());
  EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kUnavailable));
}

TEST_F(ChannelHostileTest, LastDatagramOfAGonePeerMayBeEmptyWithDescriptors) {
  ASSERT_TRUE(SendRaw(peer(), "", Fds(2)));
  ClosePeer();
  EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kDataLoss));
  EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kUnavailable));
}

TEST_F(ChannelHostileTest, BadFramesOfAGonePeerComeBeforeItsEnd) {
  ASSERT_TRUE(SendRaw(peer(), "bad", Fds(2)));
  ASSERT_TRUE(SendRaw(peer(), GoodFrame("good")));
  ClosePeer();
  EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kDataLoss));
  EXPECT_THAT(channel().Receive(Watchdog()), IsOk());
  EXPECT_THAT(channel().Receive(Watchdog()), StatusIs(kUnavailable));
}

// ---- Noise ----

// A valid frame, usually with one defect.
class Noise {
 public:
  explicit Noise(uint64_t seed) : random_(seed) {}

  size_t Below(size_t limit) {
    return std::uniform_int_distribution<size_t>(0, limit - 1)(random_);
  }

  // Returns the datagram and the number of descriptors to send with it.
  std::pair<std::string, size_t> Next() {
    const size_t fds = Below(4);
    std::string frame = GoodFrame(std::string(Below(40), 'x'), fds);
    switch (Below(5)) {
      case 0:
        frame[Below(frame.size())] = static_cast<char>(Below(256));
        return {frame, fds};
      case 1:
        return {frame.substr(0, Below(frame.size() + 1)), fds};
      case 2:
        return {frame.append(Below(20), 'y'), fds};
      case 3:
        return {frame, Below(4)};
      default:
        return {frame, fds};
    }
  }

 private:
  std::mt19937_64 random_;
};

TEST_F(ChannelHostileTest, NoiseIsAMessageOrDataLoss) {
  constexpr uint64_t kSeed = 20260301;
  Noise noise(kSeed);
  int good = 0, bad = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto [datagram, fds] = noise.Next();
    const absl::StatusOr<Frame> expected = ParseFrame(datagram, fds);
    if (expected.ok() && expected->is_end) continue;
    ASSERT_TRUE(SendRaw(peer(), datagram, Fds(fds)));
    const absl::StatusOr<Message> message = channel().Receive(Watchdog());
    ASSERT_EQ(message.status().code(), expected.status().code())
        << message.status() << " in step " << i;
    message.ok() ? ++good : ++bad;
    if (!message.ok()) continue;
    ASSERT_EQ(message->bytes, expected->payload);
    ASSERT_THAT(message->fds, SizeIs(fds));
  }
  EXPECT_GT(good, 1000);
  EXPECT_GT(bad, 1000);
  ExpectNothingLeftOpenAndUsable();
}

}  // namespace
}  // namespace tenon
