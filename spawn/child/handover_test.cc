// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/handover.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/child/start_message.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

SharedArgument Share(absl::string_view argument) {
  return *SharedArgument::Create(argument);
}

ino_t Inode(int fd) {
  struct stat file = {};
  EXPECT_EQ(fstat(fd, &file), 0) << "descriptor " << fd;
  return file.st_ino;
}

// Files with different contents.
std::vector<UniqueFd> MakeFiles(size_t count) {
  std::vector<UniqueFd> files;
  for (size_t i = 0; i < count; ++i) {
    files.emplace_back(memfd_create("handover_test", MFD_CLOEXEC));
    EXPECT_TRUE(files.back().valid());
  }
  return files;
}

std::vector<int> Borrow(const std::vector<UniqueFd>& fds) {
  std::vector<int> borrowed;
  for (const UniqueFd& fd : fds) borrowed.push_back(fd.get());
  return borrowed;
}

// Both ends are in one process, which counts its descriptors.
std::string ArgumentOf(const Handover& handover) {
  const ReadOnlyMapping& mapped = handover.mapped_argument;
  if (mapped.size_bytes() == 0) return handover.argument;
  return std::string(reinterpret_cast<const char*>(mapped.data()),
                     mapped.size_bytes());
}

class HandoverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fds_before_ = CountOpenFds();
    TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
    parent_ = std::move(ends.first);
    child_ = std::move(ends.second);
    TENON_ASSERT_OK_AND_ASSIGN(self_, PidFd::Open(getpid()));
  }
  void TearDown() override {
    parent_.reset();
    child_.reset();
    self_.reset();
    EXPECT_EQ(CountOpenFds(), fds_before_);
  }

  // The result of receiving a message with the header `start` and `fds`.
  absl::Status ReceivedFrom(const StartMessage& start,
                            const std::vector<int>& fds) {
    EXPECT_THAT(
        parent_->Send(EncodeStartMessage(start), fds, Deadline::Passed()),
        IsOk());
    return ReceiveFirst(*child_).status();
  }

  size_t fds_before_ = 0;
  std::optional<Channel> parent_;
  std::optional<Channel> child_;
  std::optional<PidFd> self_;
};

TEST_F(HandoverTest, StartMessageTravelsWithTheParent) {
  EXPECT_THAT(SendFirst(*parent_, {.entry = "e", .index = 7}, Share(""), {}),
              IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Handover handover, ReceiveFirst(*child_));
  EXPECT_EQ(handover.start.entry, "e");
  EXPECT_EQ(handover.start.index, 7);
  EXPECT_EQ(handover.argument, "");
  EXPECT_TRUE(handover.fds.empty());
  EXPECT_FALSE(handover.parent.HasEnded());
}

TEST_F(HandoverTest, ArgumentOfAnySizeTravels) {
  for (const size_t size : {1, 4095, 4096, 4097, 10 << 20}) {
    std::string argument(size, '\0');
    for (size_t i = 0; i < size; ++i) argument[i] = static_cast<char>(i * 31);
    EXPECT_THAT(SendFirst(*parent_, {}, Share(argument), {}), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Handover handover, ReceiveFirst(*child_));
    EXPECT_TRUE(ArgumentOf(handover) == argument) << size << " bytes";
  }
}

TEST_F(HandoverTest, ArgumentNeedsNoNameWhateverTheStrategy) {
  SetSharingStrategy(SharingStrategy::kFileSystem);
  EXPECT_THAT(SendFirst(*parent_, {}, Share(std::string(10'000, 'x')), {}),
              IsOk());
  SetSharingStrategy(SharingStrategy::kFileDescriptor);
  TENON_ASSERT_OK_AND_ASSIGN(const Handover handover, ReceiveFirst(*child_));
  EXPECT_EQ(ArgumentOf(handover), std::string(10'000, 'x'));
}

TEST_F(HandoverTest, AnyNumberOfDescriptorsTravelsInOrder) {
  for (const size_t count : {0, 1, 250, 251, 252, 253, 504, 505, 700}) {
    const std::vector<UniqueFd> files = MakeFiles(count);
    EXPECT_THAT(SendFirst(*parent_, {}, Share("x"), Borrow(files)), IsOk());
    // Waits until the number of descriptors in flight is below the limit.
    absl::Status sent;
    std::thread sender(
        [&] { sent = SendRest(*parent_, *self_, Borrow(files)); });
    TENON_ASSERT_OK_AND_ASSIGN(Handover handover, ReceiveFirst(*child_));
    EXPECT_EQ(handover.fds.size(), std::min(count, kFdsInFirstMessage));
    EXPECT_THAT(ReceiveRest(*child_, handover), IsOk());
    sender.join();
    EXPECT_THAT(sent, IsOk());
    ASSERT_EQ(handover.fds.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_NE(handover.fds[i].get(), files[i].get());
      EXPECT_EQ(Inode(handover.fds[i].get()), Inode(files[i].get())) << i;
      EXPECT_EQ(fcntl(handover.fds[i].get(), F_GETFD), FD_CLOEXEC) << i;
    }
  }
}

TEST_F(HandoverTest, FirstMessageIsThereOrNot) {
  EXPECT_THAT(ReceiveFirst(*child_),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
  parent_.reset();
  EXPECT_THAT(ReceiveFirst(*child_), StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(HandoverTest, FirstMessageOutlivesTheParent) {
  EXPECT_THAT(SendFirst(*parent_, {.index = 7}, Share("argument"), {}), IsOk());
  parent_.reset();
  TENON_ASSERT_OK_AND_ASSIGN(const Handover handover, ReceiveFirst(*child_));
  EXPECT_EQ(handover.argument, "argument");
}

TEST_F(HandoverTest, RestEndsWithTheParent) {
  for (const size_t count : {0, 300}) {
    TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
    const std::vector<UniqueFd> files = MakeFiles(count);
    EXPECT_THAT(SendFirst(ends.first, {}, Share(""), Borrow(files)), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(Handover handover, ReceiveFirst(ends.second));
    ends.first.Release().Reset();
    EXPECT_THAT(ReceiveRest(ends.second, handover),
                StatusIs(absl::StatusCode::kUnavailable));
  }
}

TEST_F(HandoverTest, RestIsWaitedFor) {
  const std::vector<UniqueFd> files = MakeFiles(300);
  EXPECT_THAT(SendFirst(*parent_, {}, Share(""), Borrow(files)), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(Handover handover, ReceiveFirst(*child_));
  std::thread receiver(
      [&] { EXPECT_THAT(ReceiveRest(*child_, handover), IsOk()); });
  EXPECT_THAT(SendRest(*parent_, *self_, Borrow(files)), IsOk());
  receiver.join();
  EXPECT_EQ(handover.fds.size(), files.size());
}

TEST_F(HandoverTest, RestIsNotSentToAClosedChannel) {
  const std::vector<UniqueFd> files = MakeFiles(300);
  child_.reset();
  EXPECT_THAT(SendRest(*parent_, *self_, Borrow(files)),
              StatusIs(absl::StatusCode::kUnavailable));
}

// A child that is dead, while another process keeps its end of the channel
// open.
TEST_F(HandoverTest, SendingTheRestEndsWithTheChild) {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  TENON_ASSERT_OK_AND_ASSIGN(const PidFd ended, PidFd::Open(pid));
  ASSERT_THAT(ended.Reap(Deadline::After(absl::Minutes(1))), IsOk());
  while (parent_->Send("fill", {}, Deadline::Passed()).ok()) {
  }
  const std::vector<UniqueFd> files = MakeFiles(300);
  EXPECT_THAT(SendRest(*parent_, ended, Borrow(files)),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("ended")));
}

TEST_F(HandoverTest, SendingTheRestWaitsForRoom) {
  while (parent_->Send("fill", {}, Deadline::Passed()).ok()) {
  }
  const std::vector<UniqueFd> files = MakeFiles(300);
  std::thread sender(
      [&] { EXPECT_THAT(SendRest(*parent_, *self_, Borrow(files)), IsOk()); });
  for (;;) {
    auto message = child_->Receive(Deadline::After(absl::Minutes(1)));
    ASSERT_THAT(message, IsOk());
    if (message->bytes == "fill") continue;
    EXPECT_EQ(message->fds.size(), files.size() - kFdsInFirstMessage);
    break;
  }
  sender.join();
}

TEST_F(HandoverTest, ClosedDescriptorIsRefused) {
  const int closed = 1 << 20;
  EXPECT_THAT(SendFirst(*parent_, {}, Share(""), {&closed, 1}),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(HandoverTest, EntryNameThatIsTooLongIsRefused) {
  EXPECT_THAT(
      SendFirst(*parent_, {.entry = std::string(70'000, 'x')}, Share(""), {}),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(HandoverTest, WrongNumberOfDescriptorsIsRefused) {
  const int fd = self_->fd();
  for (const auto& [start, fds] :
       std::vector<std::pair<StartMessage, std::vector<int>>>{
           {{}, {}},
           {{}, {fd, fd}},
           {{.argument_bytes = 1}, {fd}},
           {{.fd_count = 1}, {fd}},
           {{.fd_count = 1}, {fd, fd, fd}},
           {{.fd_count = ~uint64_t{0}}, {fd, fd}}}) {
    EXPECT_THAT(ReceivedFrom(start, fds),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("want")));
  }
}

TEST_F(HandoverTest, ParentThatIsNoProcessIsRefused) {
  const UniqueFd none(memfd_create("none", MFD_CLOEXEC));
  EXPECT_THAT(ReceivedFrom({}, {none.get()}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("pidfd")));
}

TEST_F(HandoverTest, ArgumentThatIsNotAsAnnouncedIsRefused) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment::OwnerWritten owned,
      Segment::CreateOwnerWritten(
          10, {.strategy = SharingStrategy::kFileDescriptor}));
  EXPECT_THAT(
      ReceivedFrom({.argument_bytes = 11}, {self_->fd(), owned.segment.fd()}),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("10 bytes; want 11")));
  EXPECT_THAT(ReceivedFrom({.argument_bytes = ~uint64_t{0}},
                           {self_->fd(), owned.segment.fd()}),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(HandoverTest, ArgumentThatItsSenderCouldChangeIsRefused) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const Segment segment,
      Segment::CreateSharedWritable(
          10, {.strategy = SharingStrategy::kFileDescriptor}));
  EXPECT_THAT(ReceivedFrom({.argument_bytes = 10}, {self_->fd(), segment.fd()}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("lacks required seals")));
}

TEST_F(HandoverTest, RestThatIsNotAsAnnouncedIsRefused) {
  const std::vector<UniqueFd> files = MakeFiles(300);
  const int fd = self_->fd();
  for (const std::string bytes : {"", "x"}) {
    EXPECT_THAT(SendFirst(*parent_, {}, Share(""), Borrow(files)), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(Handover handover, ReceiveFirst(*child_));
    EXPECT_THAT(parent_->Send(bytes, {&fd, 1}, Deadline::Passed()), IsOk());
    EXPECT_THAT(ReceiveRest(*child_, handover),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr(absl::StrCat("1 descriptors and ",
                                                bytes.size(), " bytes"))));
  }
}

}  // namespace
}  // namespace tenon::spawn
