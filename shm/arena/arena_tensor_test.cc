// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/arena_tensor.h"

#include <fcntl.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/kept_block.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr auto kFloat = kDtypeOf<float>;

// Copies the descriptors of an offer, in place of a channel.
std::vector<UniqueFd> Travel(const std::vector<int>& fds) {
  std::vector<UniqueFd> arrived;
  for (const int fd : fds) {
    arrived.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  return arrived;
}

absl::Status SendOffer(const Tensor& tensor, ArenaTensorImporter& to) {
  const auto offer = Offer(tensor);
  if (!offer.ok()) return offer.status();
  return to.Accept(offer->bytes, Travel(offer->fds));
}

class ArenaTensorTest : public testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(arena_, CreateArena({.quota_bytes = kQuota}));
  }
  absl::StatusOr<Tensor> Create(const std::vector<int64_t>& shape) {
    return CreateTensor(*arena_, kFloat, shape, Deadline::Passed());
  }

  static constexpr size_t kQuota = 256 << 10;
  std::shared_ptr<Arena> arena_;
};

TEST_F(ArenaTensorTest, IsWrittenByItsOwnerAndReadByOthers) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor sent, Create({2, 3}));
  EXPECT_TRUE(sent.is_shared());
  EXPECT_THAT(sent.Fill(0.5f), IsOk());
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(sent));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor got, importer.Claim(handle));
  TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<const float> elements,
                             got.data<const float>());
  EXPECT_THAT(elements, Each(0.5f));
  EXPECT_THAT(got.data<float>(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("read-only")));
}

TEST_F(ArenaTensorTest, SharedWritableArenasAreWrittenByAll) {
  TENON_ASSERT_OK_AND_ASSIGN(
      arena_, CreateArena({.kind = SegmentKind::kSharedWritable}));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor sent, Create({4}));
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(sent));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor got, importer.Claim(handle));
  EXPECT_THAT(got.Fill(7.0f), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<const float> elements,
                             sent.data<const float>());
  EXPECT_THAT(elements, Each(7.0f));
}

TEST_F(ArenaTensorTest, AViewKeepsItsBlock) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor whole, Create({kQuota / 4}));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor view, whole.Select(0, 5));
  whole = Tensor();
  EXPECT_THAT(Create({kQuota / 4}),
              StatusIs(absl::StatusCode::kResourceExhausted));
  view = Tensor();
  EXPECT_THAT(Create({kQuota / 4}), IsOk());
}

TEST_F(ArenaTensorTest, AClaimedViewKeepsItsBlockToo) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({kQuota / 4}));
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor row, sent.Slice(0, {.start = 3}));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(row));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor got, importer.Claim(handle));
  EXPECT_EQ(got.spec().shape()[0], row.spec().shape()[0]);
  sent = Tensor();
  EXPECT_EQ(row.spec().byte_offset(), got.spec().byte_offset());
  TENON_ASSERT_OK_AND_ASSIGN(Tensor view, got.Select(0, 0));
  got = Tensor();
  const Tensor other = row;
  EXPECT_THAT(Create({kQuota / 4}),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(ArenaTensorTest, IsReleasedInAnyThread) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({kQuota / 4}));
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(sent));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor got, importer.Claim(handle));
  std::thread([t = std::move(sent)] {}).join();
  std::thread([t = std::move(got)] {}).join();
  EXPECT_THAT(Create({kQuota / 4}), IsOk());
}

TEST_F(ArenaTensorTest, ManySmallOnesInOneBlock) {
  const std::vector<TensorShape> shapes = {
      {kFloat, {3}}, {kDtypeOf<uint8_t>, {0}}, {kDtypeOf<int64_t>, {2, 2}}};
  TENON_ASSERT_OK_AND_ASSIGN(
      std::vector<Tensor> sent,
      CreateTensors(*arena_, shapes, Deadline::Passed()));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(arena_->Use().blocks_in_use, 1u);
  EXPECT_EQ(sent[2].spec().byte_offset() % 64, 0u);
  EXPECT_THAT(sent[0].Fill(1.0f), IsOk());
  EXPECT_THAT(sent[2].Fill(int64_t{2}), IsOk());

  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent[0], importer), IsOk());
  std::vector<Tensor> got;
  for (const Tensor& tensor : sent) {
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle,
                               Describe(tensor));
    TENON_ASSERT_OK_AND_ASSIGN(got.emplace_back(), importer.Claim(handle));
  }
  // Views of one storage are views of one storage at the other end.
  EXPECT_EQ(got[0].storage(), got[2].storage());
  TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<const float> first,
                             got[0].data<const float>());
  EXPECT_THAT(first, Each(1.0f));

  sent.clear();
  got.resize(1);
  EXPECT_EQ(arena_->Use().blocks_released, 1u);
  got.clear();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
}

TEST_F(ArenaTensorTest, MessagesOfOneBlockShareItsStorageAndClaimItOnceEach) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({3}));
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(sent));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor first, importer.Claim(handle));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor second, importer.Claim(handle));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor third, importer.Claim(handle));
  EXPECT_EQ(first.storage(), second.storage());
  EXPECT_EQ(first.storage(), third.storage());
  sent = Tensor();
  // In another order than that of the claims.
  third = Tensor();
  first = Tensor();
  EXPECT_EQ(arena_->Use().blocks_released, 1u);
  EXPECT_THAT(second.data<const float>(), IsOk());
  second = Tensor();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
}

// An arena with one block, of another generation each time.
TEST_F(ArenaTensorTest, TheStorageOfABlockIsUsedAgain) {
  ArenaTensorImporter importer;
  const Storage* kept = nullptr;
  uint64_t generation = 0;
  for (int i = 0; i < 5; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({kQuota / 4}));
    ASSERT_THAT(sent.Fill(static_cast<float>(i)), IsOk());
    ASSERT_THAT(SendOffer(sent, importer), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(sent));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor got, importer.Claim(handle));
    if (i > 0) {
      EXPECT_EQ(got.storage().get(), kept);
      EXPECT_NE(handle.block.generation, generation);
    }
    kept = got.storage().get();
    generation = handle.block.generation;
    EXPECT_THAT(got.data<const float>().value(), Each(static_cast<float>(i)));
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle forwarded,
                               Describe(got));
    EXPECT_EQ(forwarded.block, handle.block);
    // It holds the block alone.
    sent = Tensor();
    EXPECT_THAT(Create({kQuota / 4}),
                StatusIs(absl::StatusCode::kResourceExhausted));
  }
}

TEST_F(ArenaTensorTest, AKeptBlockIsClaimedAgain) {
  ArenaTensorImporter importer;
  KeptBlock kept;
  const Storage* first = nullptr;
  for (int i = 0; i < 5; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor sent, Create({kQuota / 4}));
    ASSERT_THAT(SendOffer(sent, importer), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor block,
                               DescribeBlock(sent));
    BlockDescriptor same;
    EXPECT_TRUE(DescribeBlockTo(sent, same));
    EXPECT_EQ(same, block);
    if (i == 0) {
      EXPECT_EQ(importer.ClaimAgain(kept, block.generation), nullptr);
      ASSERT_THAT(importer.ClaimBlock(block, &kept), IsOk());
    }
    EXPECT_EQ(importer.ClaimAgain(kept, block.generation - 1), nullptr);
    EXPECT_EQ(importer.ClaimAgain(kept, block.generation + 1), nullptr);
    const auto got = importer.ClaimAgain(kept, block.generation);
    ASSERT_NE(got, nullptr);
    if (i == 0) first = got.get();
    EXPECT_EQ(got.get(), first);
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor received,
                               Tensor::FromSpec(sent.spec(), got));
    EXPECT_TRUE(DescribeBlockTo(received, same));
    EXPECT_EQ(same, block);
  }
  // Failed claims are released.
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
}

TEST_F(ArenaTensorTest, AKeptBlockThatIsDroppedIsNotClaimedAgain) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({3}));
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor block, DescribeBlock(sent));
  ArenaTensorImporter importer;
  KeptBlock kept;
  for (const bool in_use : {false, true}) {
    ASSERT_THAT(SendOffer(sent, importer), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(auto held, importer.ClaimBlock(block, &kept));
    EXPECT_NE(importer.ClaimAgain(kept, block.generation), nullptr);
    if (!in_use) held.reset();
    EXPECT_THAT(importer.Forget(block.arena), IsOk());
    EXPECT_EQ(importer.ClaimAgain(kept, block.generation), nullptr);
    ASSERT_THAT(SendOffer(sent, importer), IsOk());
    EXPECT_EQ(importer.ClaimAgain(kept, block.generation), nullptr);
  }
  // By its owner.
  ASSERT_THAT(importer.ClaimBlock(block, &kept), IsOk());
  sent = Tensor();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
  EXPECT_EQ(importer.ClaimAgain(kept, block.generation), nullptr);
  importer.Sweep();
  EXPECT_EQ(importer.ClaimAgain(kept, block.generation), nullptr);
}

// Each part is claimed while the one before it is in use.
TEST_F(ArenaTensorTest, AlternatingPartsOfABlockTakeBoundedMemory) {
  constexpr int kMessages = 100'000;
  constexpr size_t kMost = 8 << 20;
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor sent, Create({2}));
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(BlockDescriptor part, DescribeBlock(sent));
  part.size = sizeof(float);
  const size_t before = mallinfo2().uordblks;
  std::shared_ptr<Storage> held;
  for (int i = 0; i < kMessages; ++i) {
    part.offset = i % 2 * sizeof(float);
    TENON_ASSERT_OK_AND_ASSIGN(held, importer.ClaimBlock(part));
  }
  EXPECT_LT(mallinfo2().uordblks, before + kMost);
}

TEST_F(ArenaTensorTest, PartsOfABlockAreStoragesOfTheirOwn) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({4}));
  const float values[] = {1, 2, 3, 4};
  std::copy_n(values, 4, sent.data<float>().value().data());
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(ArenaTensorHandle handle, Describe(sent));
  std::vector<Tensor> parts;
  TENON_ASSERT_OK_AND_ASSIGN(handle.spec, TensorSpec::Contiguous(kFloat, {1}));
  handle.block.size = sizeof(float);
  for (const uint64_t i : {0, 1, 2, 1, 0}) {
    handle.block.offset = i * sizeof(float);
    TENON_ASSERT_OK_AND_ASSIGN(parts.emplace_back(), importer.Claim(handle));
    EXPECT_THAT(parts.back().data<const float>().value(),
                Each(static_cast<float>(i + 1)));
  }
  sent = Tensor();
  while (parts.size() > 1) parts.pop_back();
  EXPECT_EQ(arena_->Use().blocks_released, 1u);
  EXPECT_THAT(parts[0].data<const float>().value(), Each(1.0f));
  parts.clear();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
}

// Also while a weak reference is left, which keeps the control block.
TEST_F(ArenaTensorTest, TensorsOutliveTheirImporter) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({3}));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor also_sent, Create({5}));
  ASSERT_THAT(sent.Fill(2.0f), IsOk());
  auto importer = std::make_unique<ArenaTensorImporter>();
  ASSERT_THAT(SendOffer(sent, *importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(ArenaTensorHandle handle, Describe(sent));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor first, importer->Claim(handle));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor second, importer->Claim(handle));
  TENON_ASSERT_OK_AND_ASSIGN(handle, Describe(also_sent));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor third, importer->Claim(handle));
  std::weak_ptr<Storage> weak = first.storage();
  importer.reset();
  EXPECT_THAT(arena_->Holders(), IsOk());
  EXPECT_EQ(arena_->Use().attached, 1u);
  EXPECT_THAT(first.data<const float>().value(), Each(2.0f));
  first = Tensor();
  EXPECT_EQ(weak.lock(), nullptr);
  std::thread([t = std::move(third)] {}).join();
  EXPECT_THAT(second.data<const float>().value(), Each(2.0f));
  second = Tensor();
  weak.reset();
  EXPECT_THAT(arena_->Holders(), IsOk());
  EXPECT_EQ(arena_->Use().attached, 0u);
}

// Each round ends an importer while other threads drop its tensors.
TEST_F(ArenaTensorTest, ImportersEndWhileTheirTensorsAreDropped) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({3}));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(sent));
  for (int round = 0; round < 200; ++round) {
    auto importer = std::make_unique<ArenaTensorImporter>();
    ASSERT_THAT(SendOffer(sent, *importer), IsOk());
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      TENON_ASSERT_OK_AND_ASSIGN(Tensor got, importer->Claim(handle));
      threads.emplace_back([&ready, got = std::move(got)]() mutable {
        ready.fetch_add(1);
        while (ready.load() < 3) {
        }
        got = Tensor();
      });
    }
    while (ready.load() < 2) {
    }
    ready.fetch_add(1);
    importer.reset();
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_THAT(arena_->Holders(), IsOk());
  EXPECT_EQ(arena_->Use().attached, 0u);
}

// More blocks than an importer keeps storages of.
TEST_F(ArenaTensorTest, ManyBlocksAreReceivedAgainAndAgain) {
  constexpr int kBlocks = 5000;
  TENON_ASSERT_OK_AND_ASSIGN(arena_, CreateArena({}));
  std::vector<Tensor> sent;
  for (int i = 0; i < kBlocks; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(sent.emplace_back(), Create({1}));
    ASSERT_THAT(sent.back().Fill(static_cast<float>(i)), IsOk());
  }
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent[0], importer), IsOk());
  for (int round = 0; round < 2; ++round) {
    std::vector<Tensor> got;
    for (const Tensor& tensor : sent) {
      TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle,
                                 Describe(tensor));
      absl::StatusOr<Tensor> claimed = importer.Claim(handle);
      if (absl::IsNotFound(claimed.status())) {  // Of another segment.
        ASSERT_THAT(SendOffer(tensor, importer), IsOk());
        claimed = importer.Claim(handle);
      }
      ASSERT_THAT(claimed, IsOk());
      EXPECT_THAT(claimed->data<const float>().value(),
                  Each(static_cast<float>(got.size())));
      got.push_back(*std::move(claimed));
    }
  }
  sent.clear();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
}

TEST_F(ArenaTensorTest, IsForwarded) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({3}));
  EXPECT_THAT(sent.Fill(3.0f), IsOk());
  ArenaTensorImporter second;
  ArenaTensorImporter third;
  ASSERT_THAT(SendOffer(sent, second), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(ArenaTensorHandle handle, Describe(sent));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor held, second.Claim(handle));
  sent = Tensor();
  ASSERT_THAT(SendOffer(held, third), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(handle, Describe(held));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor got, third.Claim(handle));
  held = Tensor();
  EXPECT_THAT(arena_->Trim(), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const absl::Span<const float> elements,
                             got.data<const float>());
  EXPECT_THAT(elements, Each(3.0f));
}

TEST_F(ArenaTensorTest, ASpecThatDoesNotFitIsRefusedAndNothingIsHeld) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({16}));
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(ArenaTensorHandle handle, Describe(sent));
  TENON_ASSERT_OK_AND_ASSIGN(handle.spec,
                             TensorSpec::Contiguous(kFloat, {1 << 20}));
  EXPECT_THAT(importer.Claim(handle),
              StatusIs(absl::StatusCode::kInvalidArgument));
  sent = Tensor();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().segments, 0u);
}

TEST_F(ArenaTensorTest, OtherTensorsAreNoneOfAnArena) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor plain, Tensor::Create(kFloat, {2}));
  EXPECT_THAT(Describe(plain), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("CreateTensor")));
  EXPECT_THAT(Offer(Tensor()), StatusIs(absl::StatusCode::kFailedPrecondition));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor pooled, Create({2}));
  EXPECT_THAT(Export(pooled), StatusIs(absl::StatusCode::kFailedPrecondition,
                                       HasSubstr("arena_tensor.h")));
}

TEST_F(ArenaTensorTest, OffersOfUnknownArenasAreMissed) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor sent, Create({2}));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(sent));
  ArenaTensorImporter importer;
  EXPECT_THAT(importer.Claim(handle), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(ArenaTensorTest, IsInertInAForkedChild) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor sent, Create({3}));
  ArenaTensorImporter importer;
  ASSERT_THAT(SendOffer(sent, importer), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(sent));
  TENON_ASSERT_OK_AND_ASSIGN(Tensor got, importer.Claim(handle));
  KeptBlock kept;
  ASSERT_THAT(importer.ClaimBlock(handle.block, &kept), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(
      ForkedChild child, ForkedChild::Fork({}, [&](const Reporter&) {
        constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;
        EXPECT_THAT(sent.data<float>(), StatusIs(kRefused));
        EXPECT_THAT(got.data<const float>(), StatusIs(kRefused));
        EXPECT_THAT(Describe(sent), StatusIs(kRefused));
        EXPECT_THAT(Describe(got), StatusIs(kRefused));
        EXPECT_THAT(importer.Claim(handle), StatusIs(kRefused));
        EXPECT_EQ(importer.ClaimAgain(kept, handle.block.generation), nullptr);
        BlockDescriptor block;
        EXPECT_FALSE(DescribeBlockTo(sent, block));
        EXPECT_FALSE(DescribeBlockTo(got, block));
        EXPECT_THAT(arena_->TryAllocate(1), StatusIs(kRefused));
        got = Tensor();
        sent = Tensor();
      }));
  EXPECT_TRUE(child.EndsWell());
  // The child released nothing.
  sent = Tensor();
  EXPECT_THAT(arena_->Trim(), IsOk());
  EXPECT_EQ(arena_->Use().blocks_released, 1u);
}

}  // namespace
}  // namespace tenon
