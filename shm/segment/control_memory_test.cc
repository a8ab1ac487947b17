// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/control_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

using absl::StatusCode::kFailedPrecondition;
using absl::StatusCode::kInvalidArgument;
using absl::StatusCode::kResourceExhausted;
constexpr size_t kPage = 4096;
constexpr size_t kMemorySize = size_t{1} << 20;

size_t BytesInUse(int fd) {
  struct stat info;
  EXPECT_EQ(fstat(fd, &info), 0);
  return static_cast<size_t>(info.st_blocks) * 512;
}

ControlMemory Make(size_t size = kMemorySize) {
  return ControlMemory::Create(size, "test").value();
}

// A memfd of `size` with these seals only.
UniqueFd Memfd(size_t size, int seals) {
  UniqueFd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

bool IsMapped(const void* address) {
  return msync(const_cast<void*>(address), kPage, MS_ASYNC) == 0;
}

TEST(ControlMemoryTest, NobodyCanChangeItsSizeOrMapItWritableAgain) {
  const ControlMemory memory = Make();
  const int fd = memory.fd();
  ASSERT_THAT(memory.Reserve({0, kPage}), IsOk());
  memory.data()[0] = std::byte{7};
  EXPECT_EQ(fcntl(fd, F_GET_SEALS) & kColumnSeals, kColumnSeals);
  EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(ftruncate(fd, kPage), -1);
  EXPECT_EQ(ftruncate(fd, 2 * kMemorySize), -1);
  EXPECT_EQ(pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, kPage),
            -1);
  EXPECT_EQ(madvise(memory.data(), kPage, MADV_REMOVE), -1);
  EXPECT_EQ(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0),
            MAP_FAILED);
  EXPECT_EQ(memory.data()[0], std::byte{7});
}

TEST(ControlMemoryTest, TakesMemoryOnlyForWhatIsReserved) {
  const ControlMemory memory = Make(size_t{1} << 36);
  EXPECT_EQ(BytesInUse(memory.fd()), 0u);
  EXPECT_THAT(memory.Reserve({5 * kPage, kPage}), IsOk());
  EXPECT_EQ(BytesInUse(memory.fd()), kPage);
  EXPECT_EQ(memory.data()[5 * kPage], std::byte{0});
  memory.data()[5 * kPage] = std::byte{1};
  EXPECT_THAT(memory.Reserve({4 * kPage, 2 * kPage}), IsOk());
  EXPECT_EQ(BytesInUse(memory.fd()), 2 * kPage);
  EXPECT_EQ(memory.data()[5 * kPage], std::byte{1});
  // Bytes that share pages with other ranges.
  EXPECT_THAT(memory.Reserve({5 * kPage + 100, kPage}), IsOk());
  EXPECT_EQ(BytesInUse(memory.fd()), 3 * kPage);
}

TEST(ControlMemoryTest, BeyondItsEndNothingCanBeReserved) {
  const ControlMemory memory = Make();
  EXPECT_FALSE(memory.Reserve({kMemorySize, kPage}).ok());
  EXPECT_FALSE(memory.Reserve({kMemorySize - kPage, 2 * kPage}).ok());
  EXPECT_EQ(BytesInUse(memory.fd()), 0u);
}

TEST(ControlMemoryTest, ForkedChildHasNotTheMapping) {
  ControlMemory memory = Make();
  ASSERT_THAT(memory.Reserve({0, kPage}), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(
      ControlView view, ControlView::Adopt(memory.fd(), {0, kPage}, "test"));
  const std::byte* const addresses[] = {memory.data(), view.data()};
  for (const std::byte* address : addresses) EXPECT_TRUE(IsMapped(address));
  EXPECT_TRUE(PassesInChild([&] {
    for (const std::byte* address : addresses) EXPECT_FALSE(IsMapped(address));
    // The inherited object does not unmap the new mapping at its address.
    void* const there = const_cast<std::byte*>(addresses[1]);
    ASSERT_EQ(mmap(there, kPage, PROT_READ,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              there);
    { const ControlView inherited = std::move(view); }
    EXPECT_TRUE(IsMapped(there));
  }));
}

TEST(ControlMemoryTest, ErrorsNameTheLimitAndNothingIsLeft) {
  const size_t before = CountOpenFds();
  EXPECT_THAT(ControlMemory::Create(size_t{1} << 50, "test"),
              StatusIs(kResourceExhausted, HasSubstr("'test'")));
  EXPECT_EQ(CountOpenFds(), before);
  EXPECT_TRUE(PassesInChild([] {
    const int next = dup(0);
    ASSERT_EQ(close(next), 0);
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit none = {static_cast<rlim_t>(next), limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const auto memory = ControlMemory::Create(kMemorySize, "test");
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    EXPECT_THAT(memory,
                StatusIs(kResourceExhausted, HasSubstr("RLIMIT_NOFILE")));
  }));
}

TEST(ControlMemoryTest, MovedMemoryIsTheSame) {
  ControlMemory memory = Make();
  const std::byte* data = memory.data();
  const ControlMemory moved = std::move(memory);
  EXPECT_EQ(moved.data(), data);
  EXPECT_TRUE(IsMapped(data));
}

TEST(ControlViewTest, SeesWhatTheWriterWritesAndCannotWrite) {
  const ControlMemory memory = Make();
  ASSERT_THAT(ReserveControlMemory(memory.fd(), {kPage, kPage}, "x"), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(
      const ControlView view,
      ControlView::Adopt(memory.fd(), {kPage, kPage}, "x"));
  EXPECT_EQ(view.size_bytes(), kPage);
  memory.data()[kPage + 1] = std::byte{9};
  EXPECT_EQ(view.data()[1], std::byte{9});
  auto* const address = const_cast<std::byte*>(view.data());
  EXPECT_EQ(mprotect(address, kPage, PROT_READ | PROT_WRITE), -1);
  EXPECT_DEATH(*const_cast<volatile std::byte*>(address) = std::byte{1}, "");
}

TEST(ControlViewTest, OutlivesDescriptorAndWriter) {
  ControlView view;
  {
    const ControlMemory memory = Make();
    ASSERT_THAT(memory.Reserve({0, kPage}), IsOk());
    memory.data()[0] = std::byte{3};
    view = ControlView::Adopt(memory.fd(), {0, kPage}, "x").value();
  }
  EXPECT_EQ(view.data()[0], std::byte{3});
  view = ControlView();
  EXPECT_EQ(view.data(), nullptr);
}

TEST(ControlViewTest, EachSealIsNeededAndNamed) {
  struct {
    int seal;
    const char* name;
  } const seals[] = {{F_SEAL_SHRINK, "F_SEAL_SHRINK"},
                     {F_SEAL_GROW, "F_SEAL_GROW"},
                     {F_SEAL_FUTURE_WRITE, "F_SEAL_FUTURE_WRITE"},
                     {F_SEAL_SEAL, "F_SEAL_SEAL"}};
  for (const auto& [seal, name] : seals) {
    const UniqueFd fd = Memfd(kMemorySize, kColumnSeals & ~seal);
    EXPECT_THAT(ControlView::Adopt(fd.get(), {0, kPage}, "the memory"),
                StatusIs(kFailedPrecondition, HasSubstr(name)));
  }
  const UniqueFd none = Memfd(kMemorySize, 0);
  for (const auto& [seal, name] : seals) {
    EXPECT_THAT(CheckIsControlMemory(none.get(), "the memory"),
                StatusIs(kFailedPrecondition, HasSubstr(name)));
  }
  EXPECT_THAT(CheckIsControlMemory(Memfd(kMemorySize, kColumnSeals).get(), "x"),
              IsOkAndHolds(kMemorySize));
}

TEST(ControlViewTest, RangesThatAreNotThereAreRefused) {
  const ControlMemory memory = Make();
  for (const ByteRange range :
       {ByteRange{0, kMemorySize + 1}, ByteRange{kMemorySize, 1},
        ByteRange{kMemorySize + 1, 0}, ByteRange{kPage, kMemorySize},
        ByteRange{kPage, SIZE_MAX}, ByteRange{SIZE_MAX - kPage + 1, kPage},
        ByteRange{1, kPage}, ByteRange{0, 0}}) {
    EXPECT_THAT(ControlView::Adopt(memory.fd(), range, "x"),
                StatusIs(kInvalidArgument))
        << range.offset << ", " << range.size;
  }
}

TEST(ControlViewTest, WhatIsNoMemoryIsRefused) {
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC), 0);
  const UniqueFd read_end(pipe_fds[0]);
  const UniqueFd write_end(pipe_fds[1]);
  const UniqueFd socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd device(open("/dev/zero", O_RDWR | O_CLOEXEC));
  const char* tmp = getenv("TEST_TMPDIR");
  std::string path =
      absl::StrCat(tmp == nullptr ? "/tmp" : tmp, "/disk.XXXXXX");
  const UniqueFd file(mkostemp(path.data(), O_CLOEXEC));
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(ftruncate(file.get(), kMemorySize), 0);
  for (const int fd : {read_end.get(), write_end.get(), socket_fd.get(),
                       device.get(), file.get(), -1}) {
    const auto view = ControlView::Adopt(fd, {0, kPage}, "x");
    EXPECT_FALSE(view.ok()) << fd;
    EXPECT_FALSE(absl::IsResourceExhausted(view.status())) << view.status();
  }
}

TEST(ControlViewTest, ReadOnlyDescriptorCannotReserve) {
  const ControlMemory memory = Make();
  const UniqueFd read_only = ReopenReadOnly(memory.fd());
  ASSERT_TRUE(read_only.valid());
  EXPECT_THAT(ControlView::Adopt(read_only.get(), {0, kPage}, "x"), IsOk());
  EXPECT_THAT(ReserveControlMemory(read_only.get(), {0, kPage}, "x"),
              StatusIs(kFailedPrecondition, HasSubstr("read-only descriptor")));
}

}  // namespace
}  // namespace tenon
