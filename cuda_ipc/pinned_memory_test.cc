// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/pinned_memory.h"

#include <errno.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_testing.h"
#include "tenon/cuda_ipc/internal/cuda_page_pinner.h"
#include "tenon/cuda_ipc/internal/retired_allocations.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/mapped_pages.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using enum absl::StatusCode;
using ::testing::HasSubstr;

// Its segments are of one size of blocks and grow.
std::shared_ptr<Arena> PinnedTestArena(ArenaOptions options = {}) {
  options.name = "batches";
  return Arena::Create(options).value();
}

Block PinnedTestBlock(Arena& arena, size_t bytes = size_t{64} << 10) {
  return arena.Allocate(bytes, Deadline::Passed()).value();
}

// The same arena as another process sees it: mapped read-only, elsewhere.
absl::StatusOr<std::shared_ptr<AttachedArena>> AttachToOffer(
    const absl::StatusOr<ArenaOffer>& offer) {
  TENON_RETURN_IF_ERROR(offer.status());
  std::vector<UniqueFd> fds;
  for (const int fd : offer->fds) {
    TENON_ASSIGN_OR_RETURN(UniqueFd copy, DuplicateFd(fd, "an offer"));
    fds.push_back(std::move(copy));
  }
  return AttachedArena::Attach(offer->bytes, std::move(fds));
}

class PinnedMemoryTest : public DeviceTest {
 protected:
  void SetUp() override { Begin(""); }
  void TearDown() override { RetiredAllocations::OfProcess().Release(); }

  void Begin(const std::string& settings) {
    Start(settings);
    pinner_ = std::make_unique<CudaPagePinner>(devices_.get());
    registered_ = Calls("cuMemHostRegister_v2");
    unregistered_ = Calls("cuMemHostUnregister");
  }

  uint64_t Calls(const char* entry) const { return fake_.Calls(entry); }
  uint64_t Registered() const {
    return Calls("cuMemHostRegister_v2") - registered_;
  }
  // Once the thread that unmaps has done what it was given.
  uint64_t Unregistered() const {
    RetiredAllocations::OfProcess().Release();
    return Calls("cuMemHostUnregister") - unregistered_;
  }

  // What PinPagesOf() does with a registered pinner.
  absl::Status Pin(const void* address) const {
    const std::shared_ptr<MappedPages> pages = MappedPages::Find(address);
    if (pages == nullptr) return absl::NotFoundError("no arena");
    return pages->PinOnce([&] { return pinner_->Make(*pages); }).status();
  }

  std::unique_ptr<CudaPagePinner> pinner_;
  uint64_t registered_ = 0;
  uint64_t unregistered_ = 0;
};

TEST_F(PinnedMemoryTest, ASegmentIsRegisteredOnceAndNewOnesAsTheyCome) {
  const std::string before = Held();
  std::shared_ptr<Arena> arena = PinnedTestArena();
  std::vector<Block> blocks;
  std::vector<MappedPages*> segments;
  while (segments.size() < 3) {
    blocks.push_back(PinnedTestBlock(*arena));
    MappedPages* const now = MappedPages::Find(blocks.back().data()).get();
    if (segments.empty() || segments.back() != now) segments.push_back(now);
    ASSERT_THAT(Pin(blocks.back().data()), IsOk());
    ASSERT_THAT(Pin(blocks.back().data() + blocks.back().size() - 1), IsOk());
    EXPECT_EQ(Registered(), segments.size());
  }
  EXPECT_EQ(Unregistered(), 0u);
  blocks.clear();
  arena.reset();
  EXPECT_EQ(Unregistered(), 3u);
  EXPECT_EQ(Held(), before);  // Unregistered while it was mapped.
}

TEST_F(PinnedMemoryTest, WhatTheOwnerTrimsIsUnregisteredAndThenUnmapped) {
  const std::shared_ptr<Arena> arena = PinnedTestArena();
  for (uint64_t round = 1; round <= 3; ++round) {
    Block block = PinnedTestBlock(*arena);
    ASSERT_THAT(Pin(block.data()), IsOk());
    const void* const there = block.data();
    EXPECT_THAT(arena->Trim(), IsOk());
    EXPECT_EQ(Unregistered(), round - 1);  // A block keeps its segment.
    block.Reset();
    EXPECT_THAT(arena->Trim(), IsOk());
    EXPECT_EQ(Unregistered(), round);
    EXPECT_EQ(MappedPages::Find(there), nullptr);
  }
  EXPECT_EQ(Registered(), 3u);
}

TEST_F(PinnedMemoryTest, CopiesFromItRunWhileTheCallerGoesOn) {
  const std::shared_ptr<Arena> arena = PinnedTestArena();
  const Block block = PinnedTestBlock(*arena);
  CUdeviceptr there = 0;
  ASSERT_THAT(gpu_->Run([&] {
    return gpu_->Error(d_.cuMemAlloc_v2(&there, block.size()), "cuMemAlloc");
  }),
              IsOk());
  const auto first_byte = [&](std::byte early, std::byte late) {
    std::byte read{};
    const auto copy = [&]() -> absl::Status {
      TENON_ASSIGN_OR_RETURN(const CUstream stream, gpu_->CopyStream());
      block.data()[0] = early;
      std::latch gate(1);
      d_.cuLaunchHostFunc(
          stream, [](void* g) { static_cast<std::latch*>(g)->wait(); }, &gate);
      TENON_RETURN_IF_ERROR(gpu_->Error(
          d_.cuMemcpyHtoDAsync_v2(there, block.data(), block.size(), stream),
          "cuMemcpyHtoDAsync"));
      block.data()[0] = late;
      gate.count_down();
      d_.cuStreamSynchronize(stream);
      return gpu_->Error(d_.cuMemcpyDtoH_v2(&read, there, 1), "cuMemcpyDtoH");
    };
    EXPECT_THAT(gpu_->Run(copy), IsOk());
    return read;
  };
  // Of pageable memory the driver makes a copy first.
  EXPECT_EQ(first_byte(std::byte{1}, std::byte{2}), std::byte{1});
  ASSERT_THAT(Pin(block.data()), IsOk());
  EXPECT_EQ(first_byte(std::byte{3}, std::byte{4}), std::byte{4});
  EXPECT_THAT(
      gpu_->Run([&] { return gpu_->Error(d_.cuMemFree_v2(there), "free"); }),
      IsOk());
}

TEST_F(PinnedMemoryTest, MemoryOfAnotherProcessIsRegisteredAsReadOnly) {
  const std::string before = Held();
  {
    const std::shared_ptr<Arena> arena = PinnedTestArena();
    const Block block = PinnedTestBlock(*arena);
    TENON_ASSERT_OK_AND_ASSIGN(const auto attached,
                               AttachToOffer(arena->Offer(block)));
    TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor message, block.Describe());
    TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(message));
    const std::shared_ptr<MappedPages> pages =
        MappedPages::Find(hold.bytes().data());
    ASSERT_NE(pages, nullptr);
    EXPECT_FALSE(pages->writable());
    EXPECT_THAT(Pin(hold.bytes().data()), IsOk());
    EXPECT_THAT(Pin(block.data()), IsOk());  // The owner's own mapping.
    EXPECT_EQ(Registered(), 2u);
  }
  EXPECT_EQ(Unregistered(), 2u);
  EXPECT_EQ(Held(), before);
}

TEST_F(PinnedMemoryTest, ARefusalNamesItsReasonAndIsFinal) {
  Begin("attribute=113:0");
  const std::shared_ptr<Arena> arena = PinnedTestArena();
  const Block block = PinnedTestBlock(*arena);
  TENON_ASSERT_OK_AND_ASSIGN(const auto attached,
                             AttachToOffer(arena->Offer(block)));
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor message, block.Describe());
  TENON_ASSERT_OK_AND_ASSIGN(const Hold hold, attached->Claim(message));
  EXPECT_THAT(Pin(hold.bytes().data()),
              StatusIs(kUnimplemented, HasSubstr("attribute 113 is 0")));
  EXPECT_THAT(Pin(block.data()), IsOk());  // Writable here.
  EXPECT_EQ(Registered(), 1u);
}

TEST_F(PinnedMemoryTest, ADeviceThatRegistersNothingIsAskedOnce) {
  Begin("attribute=99:0");
  EXPECT_THAT(pinner_->Check(), StatusIs(kUnimplemented));
  const std::shared_ptr<Arena> second = PinnedTestArena();
  const Block other = PinnedTestBlock(*second);
  EXPECT_THAT(Pin(other.data()),
              StatusIs(kUnimplemented, HasSubstr("cannot be pinned")));
  const uint64_t calls = fake_.AllCalls();
  EXPECT_THAT(Pin(other.data()), StatusIs(kUnimplemented));
  EXPECT_EQ(fake_.AllCalls(), calls);
}

TEST_F(PinnedMemoryTest, ABlockWithoutAccessKeepsItsSegmentFromBeingPinned) {
  const std::shared_ptr<Arena> arena =
      PinnedTestArena({.debug = ArenaDebug::kProtect});
  const Block kept = PinnedTestBlock(*arena);
  PinnedTestBlock(*arena).Reset();  // Free, and inaccessible.
  EXPECT_THAT(Pin(kept.data()), StatusIs(kInvalidArgument));
}

TEST_F(PinnedMemoryTest, AFailedCallLeavesNothing) {
  const auto pin_and_drop = [&] {
    std::shared_ptr<Arena> arena = PinnedTestArena();
    Block block = PinnedTestBlock(*arena);
    const absl::Status pinned = Pin(block.data());
    block.Reset();
    arena.reset();
    RetiredAllocations::OfProcess().Release();
    return pinned;
  };
  FailEachCall({"cuMemHostRegister_v2", "cuMemHostUnregister"}, pin_and_drop,
               [](const std::string& entry, CUresult) {
                 return entry == "cuMemHostUnregister";  // Tried again.
               });
}

TEST_F(PinnedMemoryTest, ThreadsThatPinOneSegmentRegisterItOnce) {
  const std::shared_ptr<Arena> arena = PinnedTestArena();
  const Block block = PinnedTestBlock(*arena);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] { EXPECT_THAT(Pin(block.data()), IsOk()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Registered(), 1u);
}

TEST_F(PinnedMemoryTest, TheLastTensorMayBeDroppedInACallbackOfTheDriver) {
  std::shared_ptr<Arena> arena = PinnedTestArena();
  Block block = PinnedTestBlock(*arena);
  ASSERT_THAT(Pin(block.data()), IsOk());
  arena.reset();
  // Any call of the driver in it would fail, and leave the registration.
  const absl::Status ran = gpu_->Run([&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const CUstream stream, gpu_->CopyStream());
    d_.cuLaunchHostFunc(
        stream, [](void* data) { static_cast<Block*>(data)->Reset(); }, &block);
    return gpu_->Error(d_.cuStreamSynchronize(stream), "cuStreamSynchronize");
  });
  EXPECT_THAT(ran, IsOk());
  EXPECT_EQ(Unregistered(), 1u);
}

TEST_F(PinnedMemoryTest, NoProcessPunchesHolesInASegment) {
  const std::shared_ptr<Arena> arena = PinnedTestArena();
  const Block block = PinnedTestBlock(*arena);
  ASSERT_THAT(Pin(block.data()), IsOk());
  const std::shared_ptr<MappedPages> pages = MappedPages::Find(block.data());
  ASSERT_NE(pages, nullptr);
  EXPECT_EQ(madvise(pages->data(), pages->size_bytes(), MADV_REMOVE), -1);
  EXPECT_EQ(errno, EPERM);
}

TEST(PinMemoryTest, ATensorOutsideOfArenasIsRefused) {
  const Tensor own = Tensor::Create(kDtypeOf<float>, {16}).value();
  EXPECT_THAT(PinMemory(own),
              StatusIs(kInvalidArgument, HasSubstr("not in an arena")));
  EXPECT_FALSE(IsPinned(own));
  EXPECT_FALSE(IsPinned(Tensor()));
}

TEST_F(PinnedMemoryTest, MemoryOutsideOfArenasIsNotFound) {
  const std::shared_ptr<Arena> arena = PinnedTestArena();
  const Block block = PinnedTestBlock(*arena);
  const std::shared_ptr<MappedPages> pages = MappedPages::Find(block.data());
  ASSERT_NE(pages, nullptr);
  EXPECT_NE(MappedPages::Find(pages->data() + pages->size_bytes() - 1),
            nullptr);
  EXPECT_NE(MappedPages::Find(pages->data() + pages->size_bytes()), pages);
  EXPECT_NE(MappedPages::Find(pages->data() - 1), pages);
  EXPECT_EQ(MappedPages::Find(&registered_), nullptr);
  EXPECT_EQ(MappedPages::Find(nullptr), nullptr);
}

}  // namespace
}  // namespace tenon::cuda_ipc
