// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A channel at the limits of its process and of its user. Each body runs in a
// child, which lowers its limits for itself.

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

using absl::StatusCode::kResourceExhausted;

void SetFdLimit(rlim_t limit) {
  rlimit now;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  now.rlim_cur = limit;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
}

// More than the processes of this user have in flight: the kernel compares
// their number with this limit, too.
constexpr rlim_t kFdLimit = 4000;

// Takes every descriptor that the limit leaves.
std::vector<UniqueFd> TakeAllFds() {
  std::vector<UniqueFd> taken;
  for (;;) {
    UniqueFd fd(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
    if (!fd.valid()) return taken;
    taken.push_back(std::move(fd));
  }
}

// The body of a child: a message with `sent` descriptors arrives when the
// process may open only `free` more.
//
// Expectations come only after descriptors are available again: UBSan needs
// some to check a virtual call, and reports an error if it gets none.
void ReceiveAtFdLimit(size_t sent, size_t free) {
  TENON_ASSERT_OK_AND_ASSIGN(auto pair, Channel::CreatePair());
  Channel& a = pair.first;
  Channel& b = pair.second;
  const UniqueFd file = FileWith("x");
  const std::vector<int> fds(sent, file.get());
  ASSERT_THAT(a.Send("lost", fds, Watchdog()), IsOk());
  ASSERT_THAT(a.Send("next", {}, Watchdog()), IsOk());

  SetFdLimit(kFdLimit);
  std::vector<UniqueFd> taken = TakeAllFds();
  taken.resize(taken.size() - free);
  const absl::StatusOr<Message> lost = b.Receive(Watchdog());
  const size_t still_free = TakeAllFds().size();
  const absl::StatusOr<Message> next = b.Receive(Watchdog());
  taken.clear();

  EXPECT_THAT(lost,
              StatusIs(kResourceExhausted,
                       AllOf(HasSubstr("only " + std::to_string(free) + " of"),
                             HasSubstr("EMFILE"), HasSubstr("RLIMIT_NOFILE"),
                             HasSubstr("ulimit -n"))));
  EXPECT_EQ(still_free, free) << "what arrived of the message was not closed";
  ASSERT_THAT(next, IsOk());
  EXPECT_EQ(next->bytes, "next");

  const size_t fds_before = CountOpenFds();
  ASSERT_THAT(a.Send("again", fds, Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Message again, b.Receive(Watchdog()));
  EXPECT_EQ(again.bytes, "again");
  EXPECT_THAT(again.fds, SizeIs(sent));
  EXPECT_EQ(CountOpenFds(), fds_before + sent);
}

TEST(ChannelLimitsTest, ReceiveWhenNotAllDescriptorsCanBeTaken) {
  EXPECT_TRUE(PassesInChild([] { ReceiveAtFdLimit(20, 3); }));
}

TEST(ChannelLimitsTest, ReceiveWhenAllButOneDescriptorCanBeTaken) {
  EXPECT_TRUE(PassesInChild([] { ReceiveAtFdLimit(20, 19); }));
}

TEST(ChannelLimitsTest, ReceiveWhenNoDescriptorCanBeTaken) {
  EXPECT_TRUE(PassesInChild([] { ReceiveAtFdLimit(1, 0); }));
}

void ReceiveBytesAtFdLimit() {
  TENON_ASSERT_OK_AND_ASSIGN(auto pair, Channel::CreatePair());
  SetFdLimit(kFdLimit);
  std::vector<UniqueFd> taken = TakeAllFds();
  const absl::Status sent = pair.first.Send("x", {}, Watchdog());
  const absl::StatusOr<Message> received = pair.second.Receive(Watchdog());
  taken.clear();
  EXPECT_THAT(sent, IsOk());
  EXPECT_THAT(received, IsOk());
}

TEST(ChannelLimitsTest, ReceiveOfNoDescriptorsNeedsNone) {
  EXPECT_TRUE(PassesInChild(ReceiveBytesAtFdLimit));
}

void CreatePairAtFdLimit() {
  SetFdLimit(kFdLimit);
  std::vector<UniqueFd> taken = TakeAllFds();
  const auto with_none = Channel::CreatePair();
  taken.pop_back();
  const auto with_one = Channel::CreatePair();
  taken.pop_back();
  const auto with_two = Channel::CreatePair();
  taken.clear();
  const auto is_exhausted = StatusIs(
      kResourceExhausted, AllOf(HasSubstr("socketpair"), HasSubstr("EMFILE"),
                                HasSubstr("ulimit -n")));
  EXPECT_THAT(with_none, is_exhausted);
  EXPECT_THAT(with_one, is_exhausted);
  EXPECT_THAT(with_two, IsOk());
}

TEST(ChannelLimitsTest, CreatePairAtTheFdLimit) {
  EXPECT_TRUE(PassesInChild(CreatePairAtFdLimit));
}

// Descriptors in flight are counted per user, and root is exempt from the
// limit. So the test runs as a user without other processes, so that no other
// test is counted; without such users (in a user namespace) it is skipped.
void BecomeUnusedUser() {
  if (geteuid() != 0) return;
  std::random_device random;
  const uid_t unused = 0x40000000u | random() >> 4;
  if (setresuid(unused, unused, unused) == 0) return;
  if (setresuid(kNobody, kNobody, kNobody) != 0) return;  // Then it is skipped.
}

constexpr rlim_t kInFlightLimit = 64;

// Sends descriptors, one a message, until Send() fails; counts them.
absl::Status FloodWithFds(Channel* channel, int fd, size_t* sent) {
  for (*sent = 0; *sent < 2 * kInFlightLimit; ++*sent) {
    absl::Status status = channel->Send("fd", {&fd, 1}, Deadline::Passed());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Refused messages were not sent, and bytes alone are not refused.
void ExpectSentAndUsable(std::pair<Channel, Channel>* pair, size_t sent) {
  EXPECT_THAT(pair->first.Send("bytes", {}, Watchdog()), IsOk());
  for (size_t i = 0; i < sent; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Message message,
                               pair->second.Receive(Watchdog()));
    EXPECT_THAT(message.fds, SizeIs(1));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const Message message,
                             pair->second.Receive(Watchdog()));
  EXPECT_EQ(message.bytes, "bytes");
}

// Other processes of this user may have descriptors in flight for a moment.
absl::Status SendWhenAllowed(Channel* channel, int fd) {
  const Deadline deadline = Watchdog();
  for (;;) {
    absl::Status status = channel->Send("fd", {&fd, 1}, deadline);
    if (status.code() != kResourceExhausted || deadline.has_passed()) {
      return status;
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
}

void SendTooManyInFlight() {
  BecomeUnusedUser();
  TENON_ASSERT_OK_AND_ASSIGN(auto pair, Channel::CreatePair());
  TENON_ASSERT_OK_AND_ASSIGN(auto other, Channel::CreatePair());
  const UniqueFd file(eventfd(0, EFD_CLOEXEC));
  SetFdLimit(kInFlightLimit);
  size_t sent = 0;
  const absl::Status status = FloodWithFds(&pair.first, file.get(), &sent);
  if (status.ok()) {
    SkipInChild(
        "the limit of descriptors in flight does not hold for this process: "
        "it has CAP_SYS_RESOURCE or CAP_SYS_ADMIN and cannot drop them");
  }
  const auto is_too_many =
      StatusIs(kResourceExhausted,
               AllOf(HasSubstr("ETOOMANYREFS"), HasSubstr("this user"),
                     HasSubstr("in flight"), HasSubstr("ulimit -n")));
  EXPECT_THAT(status, is_too_many);
  // The limit is the user's: the other channel is refused sooner or later too,
  // and works again once a message is received.
  size_t sent_to_other = 0;
  EXPECT_THAT(FloodWithFds(&other.first, file.get(), &sent_to_other),
              is_too_many);
  ExpectSentAndUsable(&pair, sent);
  ExpectSentAndUsable(&other, sent_to_other);
  EXPECT_THAT(SendWhenAllowed(&pair.first, file.get()), IsOk());
}

TEST(ChannelLimitsTest, TooManyDescriptorsInFlight) {
  const int exit_code = ExitCodeOf(StartChild(SendTooManyInFlight));
  if (exit_code == kSkipped) GTEST_SKIP() << "the reason is printed above";
  EXPECT_EQ(exit_code, 0);
}

}  // namespace
}  // namespace tenon
