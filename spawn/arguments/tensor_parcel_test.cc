// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/tensor_parcel.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/hold_until_closed.h"
#include "tenon/spawn/testing/mutate_testing.h"
#include "tenon/spawn/testing/pooled_tensor_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<Arena> MakeArena() {
  return Arena::Create({.max_blocks = 8192}).value();
}

// Ten elements in a segment of their own.
Tensor MakeOwn(const SegmentOptions& options) {
  return Tensor::CreateShared(kDtypeOf<int64_t>, {10}, {.segment = options})
      .value();
}

// A parcel in a message.
struct Sent {
  std::string bytes;
  std::vector<int> fds;
  UniqueFd receipt;

  explicit Sent(const TensorMessage& tensors,
                TensorHold hold = TensorHold::kByCaller) {
    ArchiveWriter writer;
    receipt = WriteParcel(tensors, hold, writer, fds).value();
    bytes = writer.bytes();
  }
  std::vector<UniqueFd> Arrive() const {
    std::vector<UniqueFd> arrived;
    for (const int fd : fds) {
      arrived.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    }
    return arrived;
  }
};

absl::StatusOr<std::vector<absl::StatusOr<Tensor>>> ClaimIn(
    TensorClaimer& claimer, const std::string& bytes,
    std::vector<UniqueFd> fds) {
  ArchiveReader reader(bytes);
  auto tensors = claimer.Claim(reader, fds);
  if (tensors.ok() && !reader.Finish().ok()) return reader.Finish();
  return tensors;
}

TEST(TensorParcelTest, OneOfferForEachSegment) {
  const auto arena = MakeArena();
  TensorMessage tensors;
  for (int64_t i = 0; i < 10; ++i) {
    tensors.Add(MakeCounting(*arena, 10, i).value());
  }
  EXPECT_EQ(Sent(tensors).fds.size(), 3u);
  // Segments of one arena share two of their descriptors.
  tensors.Add(MakeCounting(*arena, 100'000, 0).value());
  EXPECT_EQ(Sent(tensors).fds.size(), 4u);
}

// Own segments, an arena, and views, of which none is a second storage.
TEST(TensorParcelTest, EachStorageIsSentOnce) {
  const auto arena = MakeArena();
  const size_t fds = CountOpenFds();
  const std::string prefix = UniqueShmPrefix();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor block, MakeCounting(*arena, 10, 1));
    const Tensor own = MakeOwn({});
    const Tensor named = MakeOwn(
        {.strategy = SharingStrategy::kFileSystem, .name_prefix = prefix});
    TensorMessage tensors;
    for (const Tensor& tensor : {own, block, named, Tensor(own), own}) {
      tensors.Add(tensor.Slice(0, {.start = 5}).value());
      tensors.Add(tensor);
    }
    const Sent sent(tensors, TensorHold::kUntilClaimed);
    EXPECT_EQ(sent.fds.size(), 3u + 1u + 1u);
    TensorClaimer claimer;
    TENON_ASSERT_OK_AND_ASSIGN(const auto got,
                               ClaimIn(claimer, sent.bytes, sent.Arrive()));
    ASSERT_EQ(got.size(), 10u);
    for (const auto& tensor : got) ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(got[0]->storage(), got[1]->storage());
    EXPECT_EQ(got[0]->storage(), got[6]->storage());
    EXPECT_EQ(got[0]->storage(), got[9]->storage());
    EXPECT_EQ(got[2]->storage(), got[3]->storage());
    EXPECT_EQ(got[4]->storage(), got[5]->storage());
    // The same memory, not a copy.
    ASSERT_THAT(got[1]->Fill(int64_t{7}), IsOk());
    EXPECT_EQ(*own.at<const int64_t>({3}).value(), 7);
    ASSERT_THAT(got[5]->Fill(int64_t{8}), IsOk());
    EXPECT_EQ(*named.at<const int64_t>({9}).value(), 8);
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
  EXPECT_LE(CountOpenFds(), fds + 1);  // The column of this process.
}

TEST(TensorParcelTest, MoreSegmentsThanOneMessageOfAChannelHasDescriptors) {
  std::vector<Tensor> all;
  TensorMessage tensors;
  for (int i = 0; i < 300; ++i) {
    tensors.Add(all.emplace_back(MakeOwn({})));
    ASSERT_THAT(all.back().Fill(int64_t{i}), IsOk());
  }
  const Sent sent(tensors, TensorHold::kUntilClaimed);
  EXPECT_EQ(sent.fds.size(), 300u);
  TensorClaimer claimer;
  TENON_ASSERT_OK_AND_ASSIGN(const auto got,
                             ClaimIn(claimer, sent.bytes, sent.Arrive()));
  ASSERT_EQ(got.size(), 300u);
  for (size_t i = 0; i < 300; ++i) {
    ASSERT_THAT(got[i], IsOk());
    ASSERT_EQ(*got[i]->at<const int64_t>({9}).value(), static_cast<int64_t>(i));
  }
}

TEST(TensorParcelTest, ANameThatIsGoneIsALossOfItsTensorsAlone) {
  std::optional<Tensor> named =
      MakeOwn({.strategy = SharingStrategy::kFileSystem,
               .name_prefix = UniqueShmPrefix()});
  const Tensor own = MakeOwn({});
  const Sent sent(TensorMessage(own).Add(*named));
  named.reset();
  TensorClaimer claimer;
  TENON_ASSERT_OK_AND_ASSIGN(const auto got,
                             ClaimIn(claimer, sent.bytes, sent.Arrive()));
  EXPECT_THAT(got[0], IsOk());
  EXPECT_THAT(got[1], StatusIs(absl::StatusCode::kDataLoss,
                               HasSubstr("a tensor cannot be claimed")));
}

TEST(TensorParcelTest, APrivateTensorIsRefused) {
  ArchiveWriter bytes;
  std::vector<int> fds;
  EXPECT_THAT(
      WriteParcel(TensorMessage(Tensor::Create(kDtypeOf<int>, {1}).value()),
                  TensorHold::kByCaller, bytes, fds),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("private memory")));
}

// At the limit of descriptors, another try may succeed.
TEST(TensorParcelTest, TheLimitOfDescriptorsIsNotALoss) {
  EXPECT_TRUE(PassesInChild([&] {
    const auto arena = MakeArena();
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                               MakeCounting(*arena, 10, 5));
    const Sent sent((TensorMessage(tensor)));
    std::vector<UniqueFd> arrived = sent.Arrive();
    rlimit limit;
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit none = {.rlim_cur = 3, .rlim_max = limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    TensorClaimer claimer;
    // Not checked here: the sanitizers need descriptors.
    const auto got = ClaimIn(claimer, sent.bytes, std::move(arrived));
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
    ASSERT_THAT(got, IsOk());
    EXPECT_THAT((*got)[0], StatusIs(absl::StatusCode::kResourceExhausted));
    TENON_ASSERT_OK_AND_ASSIGN(const auto again,
                               ClaimIn(claimer, sent.bytes, sent.Arrive()));
    EXPECT_THAT(again[0], IsOk());
  }));
}

TEST(TensorParcelTest, WhatIsClaimedIsWhatWasSent) {
  const auto arena = MakeArena();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                               MakeCounting(*arena, 10, 5));
    const Sent sent(TensorMessage(tensor).Add(tensor));
    TensorClaimer claimer;
    TENON_ASSERT_OK_AND_ASSIGN(const auto tensors,
                               ClaimIn(claimer, sent.bytes, sent.Arrive()));
    ASSERT_EQ(tensors.size(), 2u);
    EXPECT_THAT(CheckCounting(tensors[0].value(), 10, 5), IsOk());
    EXPECT_EQ(tensors[1].value().storage(), tensors[0].value().storage());
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
}

TEST(TensorParcelTest, AReceiptEndsTheHold) {
  const auto arena = MakeArena();
  const size_t fds = CountOpenFds();
  {
    Sent sent(TensorMessage(MakeCounting(*arena, 10, 5).value()),
              TensorHold::kUntilClaimed);
    EXPECT_EQ(sent.fds.size(), 4u);
    std::vector<UniqueFd> first = sent.Arrive();
    std::vector<UniqueFd> second = sent.Arrive();
    sent.receipt.Reset();
    TensorClaimer claimer;
    EXPECT_THAT(ClaimIn(claimer, sent.bytes, std::move(first)), IsOk());
    arena->Trim().IgnoreError();
    EXPECT_EQ(arena->Use().blocks_in_use, 1u);  // Still held for the second.
    EXPECT_THAT(ClaimIn(claimer, sent.bytes, std::move(second)), IsOk());
    EXPECT_TRUE(NothingIsLeftIn(*arena));
  }
  EXPECT_TRUE(NothingIsLeftIn(*arena));
  // The descriptor of the receipt; the rest is the column of this process.
  EXPECT_LE(CountOpenFds(), fds + 1);
}

// poll() takes no more descriptors at once than the limit.
TEST(TensorParcelTest, HoldsEndBelowALoweredLimitOfDescriptors) {
  const auto arena = MakeArena();
  std::vector<UniqueFd> receipts;
  for (int i = 0; i < 10; ++i) {
    Sent sent(TensorMessage(MakeCounting(*arena, 10, 5).value()),
              TensorHold::kUntilClaimed);
    receipts.push_back(std::move(sent.receipt));
  }
  EXPECT_EQ(arena->Use().blocks_in_use, 10u);
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd awaited(ends[0]);
  const UniqueFd other(ends[1]);
  ASSERT_EQ(write(other.get(), "x", 1), 1);
  rlimit limit;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit few = {.rlim_cur = 4, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const absl::Status waited = ReleaseWhileWaiting(awaited.get());
  receipts.clear();
  const auto trimmed = arena->Trim();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_THAT(waited, IsOk());
  EXPECT_THAT(trimmed, IsOk());
  EXPECT_EQ(arena->Use().blocks_in_use, 0u);
}

TEST(TensorParcelTest, WhatWasTakenBackIsLost) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor kept, MakeCounting(*arena, 10, 1));
  const Sent sent(TensorMessage(MakeCounting(*arena, 10, 2).value()).Add(kept));
  std::vector<UniqueFd> fds = sent.Arrive();
  arena->Trim().IgnoreError();
  TensorClaimer claimer;
  TENON_ASSERT_OK_AND_ASSIGN(const auto tensors,
                             ClaimIn(claimer, sent.bytes, std::move(fds)));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_THAT(tensors[0], StatusIs(absl::StatusCode::kDataLoss,
                                   HasSubstr("a tensor cannot be claimed")));
  EXPECT_THAT(CheckCounting(tensors[1].value(), 10, 1), IsOk());
}

TEST(TensorParcelTest, ArenasOfOldGiveWay) {
  TensorClaimer claimer;
  for (int64_t i = 0; i < 300; ++i) {
    const auto arena = MakeArena();
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                               MakeCounting(*arena, 10, i));
    const Sent sent((TensorMessage(tensor)));
    TENON_ASSERT_OK_AND_ASSIGN(const auto tensors,
                               ClaimIn(claimer, sent.bytes, sent.Arrive()));
    ASSERT_THAT(tensors[0], IsOk());
    ASSERT_THAT(CheckCounting(*tensors[0], 10, i), IsOk());
  }
}

TEST(TensorParcelTest, DescriptorsThatDoNotFit) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, MakeCounting(*arena, 10, 1));
  const Sent sent((TensorMessage(tensor)));
  TensorClaimer claimer;
  std::vector<UniqueFd> more = sent.Arrive();
  more.emplace_back(dup(STDERR_FILENO));
  // Its last ones are taken for the parcel's.
  TENON_ASSERT_OK_AND_ASSIGN(const auto wrong,
                             ClaimIn(claimer, sent.bytes, std::move(more)));
  EXPECT_THAT(wrong[0], StatusIs(absl::StatusCode::kDataLoss));
  std::vector<UniqueFd> fewer = sent.Arrive();
  fewer.pop_back();
  EXPECT_THAT(ClaimIn(claimer, sent.bytes, std::move(fewer)),
              StatusIs(absl::StatusCode::kDataLoss));
  // The same number, but not those of an offer.
  std::vector<UniqueFd> others = sent.Arrive();
  for (UniqueFd& fd : others) fd.Reset(dup(STDERR_FILENO));
  TENON_ASSERT_OK_AND_ASSIGN(const auto tensors,
                             ClaimIn(claimer, sent.bytes, std::move(others)));
  EXPECT_THAT(tensors[0], StatusIs(absl::StatusCode::kDataLoss));
}

TEST(TensorParcelFuzzTest, AnyBytesAreRefusedOrNameWhatIsThere) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor one, MakeCounting(*arena, 10, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor two, MakeCounting(*arena, 99, 1));
  const Tensor own = MakeOwn({});
  const Sent sent(TensorMessage(one).Add(two).Add(own).Add(Tensor(own)));
  const size_t fds = CountOpenFds();
  auto claimer = std::make_unique<TensorClaimer>();
  Mutator mutator(20260705);
  int claimed = 0;
  int lost = 0;
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto tensors =
        ClaimIn(*claimer, mutator.Mutate(sent.bytes), sent.Arrive());
    if (!tensors.ok()) {
      ++refused;
      ASSERT_THAT(tensors, StatusIs(absl::StatusCode::kDataLoss));
      continue;
    }
    for (const absl::StatusOr<Tensor>& tensor : *tensors) {
      ++(tensor.ok() ? claimed : lost);
      if (!tensor.ok()) {
        ASSERT_THAT(tensor, StatusIs(absl::StatusCode::kDataLoss));
      } else if (const auto bytes = tensor->data<const std::byte>();
                 bytes.ok() && !bytes->empty()) {
        // The whole range can be read.
        ASSERT_LE(bytes->size(), tensor->storage()->size_bytes());
        ASSERT_NE(
            static_cast<int>(bytes->front()) + static_cast<int>(bytes->back()),
            -1);
      }
    }
  }
  EXPECT_GT(claimed, 100);
  EXPECT_GT(lost, 100);
  EXPECT_GT(refused, 100);
  claimer.reset();
  EXPECT_LE(CountOpenFds(), fds + 1);  // The column of this process.
}

}  // namespace
}  // namespace tenon::spawn
