// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Includes messages that no present kernel builds: control messages that are
// merged today may be separate tomorrow.

#include "tenon/ipc/channel/ancillary.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kScmPidFd = 4;

int NewFd() {
  const int fd = eventfd(0, EFD_CLOEXEC);
  EXPECT_GE(fd, 0);
  return fd;
}

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

std::vector<int> FdNumbers(const Ancillary& ancillary) {
  std::vector<int> numbers;
  for (const UniqueFd& fd : ancillary.fds) numbers.push_back(fd.get());
  return numbers;
}

// Control data as recvmsg() would leave it.
class Received {
 public:
  Received() {
    AttachRoom(&control_, &message_);
    message_.msg_controllen = 0;
  }

  void Add(int level, int type, const void* data, size_t size) {
    cmsghdr header = {
        .cmsg_len = CMSG_LEN(size), .cmsg_level = level, .cmsg_type = type};
    char* at = control_.bytes + message_.msg_controllen;
    std::memcpy(at, &header, sizeof(header));
    if (size > 0) std::memcpy(at + CMSG_LEN(0), data, size);
    message_.msg_controllen += CMSG_SPACE(size);
  }

  void AddFds(const std::vector<int>& fds) {
    Add(SOL_SOCKET, SCM_RIGHTS, fds.data(), fds.size() * sizeof(int));
  }

  // The last control message may lack it.
  void CutOffPadding(size_t size) { message_.msg_controllen -= size; }

  msghdr* message() { return &message_; }

 private:
  ControlBuffer control_ = {};
  msghdr message_ = {};
};

TEST(AncillaryTest, NothingCame) {
  Received received;
  const Ancillary ancillary = TakeAncillary(received.message());
  EXPECT_THAT(ancillary.fds, IsEmpty());
  EXPECT_FALSE(ancillary.has_others);
}

TEST(AncillaryTest, DescriptorsAreTakenInOrderAndOwned) {
  const int a = NewFd(), b = NewFd(), c = NewFd();
  Received received;
  received.AddFds({b, a, c});
  received.CutOffPadding(sizeof(int));
  {
    const Ancillary ancillary = TakeAncillary(received.message());
    EXPECT_THAT(FdNumbers(ancillary), ElementsAre(b, a, c));
    EXPECT_FALSE(ancillary.has_others);
  }
  EXPECT_FALSE(IsOpen(a) || IsOpen(b) || IsOpen(c));
}

TEST(AncillaryTest, DescriptorsOfSeveralControlMessages) {
  const int a = NewFd(), b = NewFd(), c = NewFd();
  Received received;
  received.AddFds({a});
  received.AddFds({});
  received.AddFds({b, c});
  const Ancillary ancillary = TakeAncillary(received.message());
  EXPECT_THAT(FdNumbers(ancillary), ElementsAre(a, b, c));
  EXPECT_FALSE(ancillary.has_others);
}

TEST(AncillaryTest, CredentialsAreToldAndHideNoDescriptor) {
  const int fd = NewFd();
  const ucred credentials = {.pid = 1, .uid = 2, .gid = 3};
  Received received;
  received.Add(SOL_SOCKET, SCM_CREDENTIALS, &credentials, sizeof(credentials));
  received.AddFds({fd});
  const Ancillary ancillary = TakeAncillary(received.message());
  EXPECT_THAT(FdNumbers(ancillary), ElementsAre(fd));
  EXPECT_FALSE(ancillary.has_others);
  ASSERT_TRUE(ancillary.credentials.has_value());
  EXPECT_EQ(ancillary.credentials->pid, 1);
  EXPECT_EQ(ancillary.credentials->uid, 2u);
  EXPECT_EQ(ancillary.credentials->gid, 3u);
}

TEST(AncillaryTest, CredentialsThatAreTooShortAreSomethingElse) {
  const int fd = NewFd();
  const ucred credentials = {};
  Received received;
  received.Add(SOL_SOCKET, SCM_CREDENTIALS, &credentials,
               sizeof(credentials) - 1);
  received.AddFds({fd});
  const Ancillary ancillary = TakeAncillary(received.message());
  EXPECT_THAT(FdNumbers(ancillary), ElementsAre(fd));
  EXPECT_TRUE(ancillary.has_others);
  EXPECT_FALSE(ancillary.credentials.has_value());
}

TEST(AncillaryTest, AttachedCredentialsAreTaken) {
  for (const size_t count : {size_t{0}, size_t{1}, kMaxFdsInMessage}) {
    std::vector<int> fds(count);
    std::generate(fds.begin(), fds.end(), NewFd);
    ControlBuffer control;
    msghdr message = {};
    AttachFdsAndCredentials(fds, {.pid = 4, .uid = 5, .gid = 6}, &control,
                            &message);
    const Ancillary ancillary = TakeAncillary(&message);
    EXPECT_EQ(FdNumbers(ancillary), fds);
    EXPECT_FALSE(ancillary.has_others);
    ASSERT_TRUE(ancillary.credentials.has_value());
    EXPECT_EQ(ancillary.credentials->uid, 5u);
  }
}

TEST(AncillaryTest, PidFdIsOwnedThoughItIsNotWanted) {
  const int fd = NewFd();
  Received received;
  received.Add(SOL_SOCKET, kScmPidFd, &fd, sizeof(fd));
  {
    const Ancillary ancillary = TakeAncillary(received.message());
    EXPECT_THAT(FdNumbers(ancillary), ElementsAre(fd));
    EXPECT_TRUE(ancillary.has_others);
  }
  EXPECT_FALSE(IsOpen(fd));
}

// If it cannot make a pidfd, the kernel stores an errno in its place.
TEST(AncillaryTest, PidFdThatIsAnErrorIsLeftAlone) {
  const int error = -24;
  Received received;
  received.Add(SOL_SOCKET, kScmPidFd, &error, sizeof(error));
  const Ancillary ancillary = TakeAncillary(received.message());
  EXPECT_TRUE(ancillary.has_others);
}

// SOL_SOCKET's numbers mean something else elsewhere.
TEST(AncillaryTest, OtherLevelsHoldNoDescriptors) {
  UniqueFd fd(NewFd());
  const int number = fd.get();
  Received received;
  received.Add(/*level=*/0, SCM_RIGHTS, &number, sizeof(number));
  {
    const Ancillary ancillary = TakeAncillary(received.message());
    EXPECT_THAT(ancillary.fds, IsEmpty());
    EXPECT_TRUE(ancillary.has_others);
  }
  EXPECT_TRUE(IsOpen(number));
}

TEST(AncillaryTest, NoDescriptorsMeanNoControlData) {
  ControlBuffer control;
  msghdr message = {};
  AttachRoom(&control, &message);
  AttachFds({}, &control, &message);
  EXPECT_EQ(message.msg_control, nullptr);
  EXPECT_EQ(message.msg_controllen, 0u);
}

TEST(AncillaryTest, AttachedDescriptorsAreTaken) {
  for (const size_t count : {size_t{1}, size_t{2}, kMaxFdsInMessage}) {
    std::vector<int> fds(count);
    std::generate(fds.begin(), fds.end(), NewFd);
    ControlBuffer control;
    msghdr message = {};
    AttachFds(fds, &control, &message);
    const Ancillary ancillary = TakeAncillary(&message);
    EXPECT_EQ(FdNumbers(ancillary), fds);
    EXPECT_FALSE(ancillary.has_others);
  }
}

TEST(AncillaryTest, PaddingCarriesNothing) {
  ControlBuffer control;
  std::memset(&control, 0xdd, sizeof(control));
  msghdr message = {};
  const int fd = 0;
  AttachFds({&fd, 1}, &control, &message);
  const absl::Span<const char> padding =
      absl::MakeConstSpan(control.bytes)
          .subspan(CMSG_LEN(sizeof(int)),
                   CMSG_SPACE(sizeof(int)) - CMSG_LEN(sizeof(int)));
  ASSERT_FALSE(padding.empty());
  EXPECT_THAT(padding, ::testing::Each('\0'));
}

TEST(AncillaryDeathTest, MoreThanTheKernelTakes) {
  const std::vector<int> fds(kMaxFdsInMessage + 1);
  ControlBuffer control;
  msghdr message = {};
  EXPECT_DEATH(AttachFds(fds, &control, &message), "too many descriptors");
}

}  // namespace
}  // namespace tenon
