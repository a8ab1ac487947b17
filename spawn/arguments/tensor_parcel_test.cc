// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/tensor_parcel.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"
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

// A parcel in a message.
struct Sent {
  std::string bytes;
  std::vector<int> fds;

  explicit Sent(const TensorParcel& parcel) {
    ArchiveWriter writer;
    parcel.Write(writer, fds);
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
  auto tensors = claimer.Claim(reader, absl::MakeSpan(fds));
  if (tensors.ok() && !reader.Finish().ok()) return reader.Finish();
  return tensors;
}

TEST(TensorParcelTest, OneOfferForEachSegment) {
  const auto arena = MakeArena();
  TensorParcel parcel;
  EXPECT_TRUE(parcel.empty());
  for (int64_t i = 0; i < 10; ++i) {
    ASSERT_THAT(parcel.Add(MakeCounting(*arena, 10, i).value()), IsOk());
  }
  EXPECT_FALSE(parcel.empty());
  EXPECT_EQ(Sent(parcel).fds.size(), 3u);
  ASSERT_THAT(parcel.Add(MakeCounting(*arena, 100'000, 0).value()), IsOk());
  EXPECT_EQ(Sent(parcel).fds.size(), 6u);
}

TEST(TensorParcelTest, WhatIsClaimedIsWhatWasSent) {
  const auto arena = MakeArena();
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor,
                               MakeCounting(*arena, 10, 5));
    TensorParcel parcel;
    ASSERT_THAT(parcel.Add(tensor), IsOk());
    ASSERT_THAT(parcel.Add(tensor), IsOk());
    const Sent sent(parcel);
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
    TensorParcel parcel;
    TENON_ASSERT_OK_AND_ASSIGN(Tensor tensor, MakeCounting(*arena, 10, 5));
    ASSERT_THAT(parcel.Add(tensor), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(UniqueFd receipt,
                               HoldUntilClosed({std::move(tensor)}));
    parcel.set_receipt(receipt.get());
    const Sent sent(parcel);
    EXPECT_EQ(sent.fds.size(), 4u);
    std::vector<UniqueFd> first = sent.Arrive();
    std::vector<UniqueFd> second = sent.Arrive();
    receipt.Reset();
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

TEST(TensorParcelTest, WhatWasTakenBackIsLost) {
  const auto arena = MakeArena();
  TensorParcel parcel;
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor kept, MakeCounting(*arena, 10, 1));
  ASSERT_THAT(parcel.Add(MakeCounting(*arena, 10, 2).value()), IsOk());
  ASSERT_THAT(parcel.Add(kept), IsOk());
  const Sent sent(parcel);
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
    TensorParcel parcel;
    ASSERT_THAT(parcel.Add(tensor), IsOk());
    const Sent sent(parcel);
    TENON_ASSERT_OK_AND_ASSIGN(const auto tensors,
                               ClaimIn(claimer, sent.bytes, sent.Arrive()));
    ASSERT_THAT(tensors[0], IsOk());
    ASSERT_THAT(CheckCounting(*tensors[0], 10, i), IsOk());
  }
}

TEST(TensorParcelTest, DescriptorsThatDoNotFit) {
  const auto arena = MakeArena();
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, MakeCounting(*arena, 10, 1));
  TensorParcel parcel;
  ASSERT_THAT(parcel.Add(tensor), IsOk());
  const Sent sent(parcel);
  TensorClaimer claimer;
  std::vector<UniqueFd> more = sent.Arrive();
  more.emplace_back(dup(STDERR_FILENO));
  EXPECT_THAT(ClaimIn(claimer, sent.bytes, std::move(more)),
              StatusIs(absl::StatusCode::kDataLoss));
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
  TensorParcel parcel;
  ASSERT_THAT(parcel.Add(one), IsOk());
  ASSERT_THAT(parcel.Add(two), IsOk());
  const Sent sent(parcel);
  TensorClaimer claimer;
  Mutator mutator(20260705);
  int claimed = 0;
  int lost = 0;
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto tensors =
        ClaimIn(claimer, mutator.Mutate(sent.bytes), sent.Arrive());
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
}

}  // namespace
}  // namespace tenon::spawn
