// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Messages larger than a datagram, from honest peers and hostile ones.

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/channel_testing.h"
#include "tenon/ipc/channel/frame.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr absl::StatusCode kDataLoss = absl::StatusCode::kDataLoss;
constexpr absl::StatusCode kInvalidArgument =
    absl::StatusCode::kInvalidArgument;
constexpr absl::StatusCode kResourceExhausted =
    absl::StatusCode::kResourceExhausted;

constexpr size_t kMaxMessage = 10 << 20;

std::string Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 131 / 7);
  return bytes;
}

[[maybe_unused]] size_t MappedBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t pages = 0;
  statm >> pages;
  return pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

class ChannelLargeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fds_before_ = CountOpenFds();
    auto [one, two] = SocketPair();
    raw_ = UniqueFd(fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
    TENON_ASSERT_OK_AND_ASSIGN(Channel a, Channel::Adopt(std::move(one)));
    TENON_ASSERT_OK_AND_ASSIGN(
        Channel b,
        Channel::Adopt(std::move(two), {.max_message_bytes = kMaxMessage}));
    a_.emplace(std::move(a));
    b_.emplace(std::move(b));
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    raw_.Reset();
    EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds_before_; }));
  }

  Channel& a() { return *a_; }
  Channel& b() { return *b_; }

  // Sends as a's end would, with arbitrary contents.
  void SendForged(uint64_t announced, const std::vector<int>& fds) {
    const FrameHeader header = {.payload_bytes = sizeof(announced),
                                .fd_count = static_cast<uint16_t>(fds.size()),
                                .kind = FrameKind::kBytesInSegment};
    std::string datagram(sizeof(header), '\0');
    std::memcpy(datagram.data(), &header, sizeof(header));
    datagram.append(reinterpret_cast<const char*>(&announced),
                    sizeof(announced));
    ASSERT_TRUE(SendRaw(raw_.get(), datagram, fds));
  }

  void ExpectNothingLeftOpenAndUsable() {
    EXPECT_EQ(CountOpenFds(), fds_before_ + 3);
    EXPECT_THAT(a().Send("there", {}, Watchdog()), IsOk());
    EXPECT_THAT(b().Receive(Watchdog()), IsMessage("there"));
  }

 private:
  size_t fds_before_ = 0;
  UniqueFd raw_;
  std::optional<Channel> a_, b_;
};

TEST_F(ChannelLargeTest, BytesArriveWhateverTheirNumber) {
  for (const size_t size : {Channel::kMaxBytes, Channel::kMaxBytes + 1,
                            size_t{100'000}, size_t{4096} * 100, kMaxMessage}) {
    const std::string bytes = Bytes(size);
    ASSERT_THAT(a().Send(bytes, {}, Watchdog()), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Message message, b().Receive(Watchdog()));
    EXPECT_TRUE(message.bytes == bytes) << size;
    EXPECT_THAT(message.fds, SizeIs(0));
    ExpectNothingLeftOpenAndUsable();
  }
}

TEST_F(ChannelLargeTest, DescriptorsComeWithThem) {
  const std::string bytes = Bytes(100'000);
  for (const size_t count : {size_t{1}, Channel::kMaxFds - 1}) {
    const UniqueFd file = FileWith("x");
    const std::vector<int> fds(count, file.get());
    ASSERT_THAT(a().Send(bytes, fds, Watchdog()), IsOk());
    // The message's segment is not among the expected descriptors.
    TENON_ASSERT_OK_AND_ASSIGN(const Message message,
                               b().Receive(Watchdog(), count));
    EXPECT_TRUE(message.bytes == bytes);
    ASSERT_THAT(message.fds, SizeIs(count));
    for (const UniqueFd& fd : message.fds) EXPECT_EQ(ContentOf(fd.get()), "x");
  }
  ExpectNothingLeftOpenAndUsable();
}

TEST_F(ChannelLargeTest, OneDescriptorFewerThanWithoutThem) {
  const UniqueFd file = FileWith("x");
  const std::vector<int> fds(Channel::kMaxFds, file.get());
  EXPECT_THAT(
      a().Send(Bytes(100'000), fds, Watchdog()),
      StatusIs(kInvalidArgument, AllOf(HasSubstr("254 descriptors"),
                                       HasSubstr("carries its bytes"))));
}

TEST_F(ChannelLargeTest, OverTheReceiversLimitIsLostByName) {
  ASSERT_THAT(a().Send(Bytes(kMaxMessage + 1), {}, Watchdog()), IsOk());
  EXPECT_THAT(b().Receive(Watchdog()),
              StatusIs(kResourceExhausted,
                       AllOf(HasSubstr(absl::StrCat(kMaxMessage + 1, " bytes")),
                             HasSubstr(absl::StrCat("at most ", kMaxMessage)),
                             HasSubstr("max_message_bytes"))));
  ExpectNothingLeftOpenAndUsable();
}

TEST_F(ChannelLargeTest, SurvivesItsSender) {
  const std::string bytes = Bytes(1'000'000);
  const UniqueFd socket = a().Release();
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(Channel channel,
                               Channel::Adopt(UniqueFd(dup(socket.get()))));
    EXPECT_THAT(channel.Send(bytes, {}, Watchdog()), IsOk());
  }));
  TENON_ASSERT_OK_AND_ASSIGN(const Message message, b().Receive(Watchdog()));
  EXPECT_TRUE(message.bytes == bytes);
}

// Either the sender or the receiver lacks memory for it.
TEST_F(ChannelLargeTest, WithoutMemoryItIsAnErrorOnEitherSide) {
  ASSERT_THAT(a().Send(Bytes(kMaxMessage), {}, Watchdog()), IsOk());
  const UniqueFd one = a().Release(), two = b().Release();
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(Channel from,
                               Channel::Adopt(UniqueFd(dup(one.get()))));
    TENON_ASSERT_OK_AND_ASSIGN(Channel to,
                               Channel::Adopt(UniqueFd(dup(two.get()))));
    const std::string bytes = Bytes(100'000);
    const rlimit no_files = {.rlim_cur = 4096, .rlim_max = RLIM_INFINITY};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &no_files), 0);
    signal(SIGXFSZ, SIG_IGN);
    EXPECT_THAT(from.Send(bytes, {}, Watchdog()),
                StatusIs(kResourceExhausted, HasSubstr("RLIMIT_FSIZE")));
  }));
#ifndef __SANITIZE_ADDRESS__
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(Channel to,
                               Channel::Adopt(UniqueFd(dup(two.get()))));
    malloc_trim(0);
    // Room for small allocations, but not for the message.
    const rlimit no_memory = {.rlim_cur = MappedBytes() + (4 << 20),
                              .rlim_max = RLIM_INFINITY};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &no_memory), 0);
    const absl::StatusOr<Message> received = to.Receive(Watchdog());
    const rlimit memory = {.rlim_cur = RLIM_INFINITY,
                           .rlim_max = RLIM_INFINITY};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &memory), 0);
    EXPECT_THAT(received,
                StatusIs(kResourceExhausted, HasSubstr("10485760 bytes")));
  }));
#endif
}

// ---- Hostile peers ----

struct Forgery {
  std::string name;
  UniqueFd (*make)();
  std::string error;
};

UniqueFd Memfd(size_t size, int seals) {
  UniqueFd fd(memfd_create("forged", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

constexpr size_t kForged = 100'000;
constexpr int kAllSeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

class ChannelForgedSegmentTest : public ChannelLargeTest,
                                 public ::testing::WithParamInterface<Forgery> {
};

TEST_P(ChannelForgedSegmentTest, IsDataLossAndClosed) {
  const UniqueFd file = FileWith("x");
  const UniqueFd forged = GetParam().make();
  SendForged(kForged, {forged.get(), file.get()});
  const size_t fds_before = CountOpenFds();
  EXPECT_THAT(b().Receive(Watchdog()),
              StatusIs(kDataLoss, HasSubstr(GetParam().error)));
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds_before; }));
}

INSTANTIATE_TEST_SUITE_P(
    Forgeries, ChannelForgedSegmentTest,
    ::testing::Values(
        Forgery{"NotSealed", [] { return Memfd(kForged, 0); },
                "lacks required seals: F_SEAL_SEAL, F_SEAL_SHRINK"},
        Forgery{"StillWritable",
                [] { return Memfd(kForged, kAllSeals & ~F_SEAL_FUTURE_WRITE); },
                "lacks required seals: F_SEAL_FUTURE_WRITE"},
        Forgery{"Smaller", [] { return Memfd(kForged - 1, kAllSeals); },
                "announced a message of 100000 bytes; its segment has 99999"},
        Forgery{"Larger", [] { return Memfd(kForged + 1, kAllSeals); },
                "segment has 100001"},
        Forgery{"Empty", [] { return Memfd(0, kAllSeals); }, "has 0 bytes"},
        Forgery{"Event", [] { return UniqueFd(eventfd(0, EFD_CLOEXEC)); },
                "not memory"},
        Forgery{"Device",
                [] { return UniqueFd(open("/dev/zero", O_RDWR | O_CLOEXEC)); },
                "not memory"}),
    [](const auto& test) { return test.param.name; });

// A sparse terabyte: nothing is allocated for it.
TEST_F(ChannelLargeTest, HugeAndSparseIsOverTheLimit) {
  {
    const UniqueFd huge = Memfd(size_t{1} << 40, kAllSeals);
    SendForged(uint64_t{1} << 40, {huge.get()});
  }
  EXPECT_THAT(b().Receive(Watchdog()),
              StatusIs(kResourceExhausted, HasSubstr("1099511627776 bytes")));
  ExpectNothingLeftOpenAndUsable();
}

}  // namespace
}  // namespace tenon
