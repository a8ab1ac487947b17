// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// An owner, a receiver and a third process of a pool, killed and stopped at
// every named point of device memory, arena and ledger.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/kill/census.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/kill_report.h"
#include "tenon/shm/testing/kill/kill_scenario.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two tensors in a segment, and two segments in the pool.
constexpr int64_t kHalf = kPage / 2 / sizeof(int64_t);
constexpr size_t kQuota = 2 * kPage;

// Made once and kept: the primary context, and its stream for copies.
constexpr size_t kOfAProcess = 2;

// An offer, and the tensor to claim.
struct TensorBoard {
  OfferBoard offer;
  ArenaTensorHandle tensor = {};
};
struct TensorBoards {
  TensorBoard receiver;
  TensorBoard third;
};

auto MayHaveDied() {
  return AnyOf(IsOk(), StatusIs(absl::StatusCode::kUnavailable));
}

class DeviceKillPointsTest : public DeviceProcessTest {
 protected:
  void Own(Peer& self) {
    BeginProcess();
    {
      TENON_ASSERT_OK_AND_ASSIGN(
          const auto pool,
          DevicePool::Create(
              0, {.quota_bytes = kQuota, .largest_segment_bytes = kPage}));
      std::optional<Tensor> tensor = Half(*pool, 7);
      Give(self, "receiver", boards_->receiver, *tensor);
      // Kept until it has been claimed.
      self.Await("receiver", "claimed").IgnoreError();
      tensor.reset();
      Overwrite(*pool);
      self.Step("let go");
      self.Await("receiver", "released").IgnoreError();
      self.Await("third", "released").IgnoreError();
      // All have released or died: the pool has room for its whole quota, for
      // which it returns its segments to the device.
      EXPECT_THAT(
          pool->CreateTensor(kDtypeOf<uint8_t>, {int64_t{kQuota}}, Patience()),
          IsOk());
      EXPECT_THAT(pool->Close(Patience()), IsOk());
    }
    if (!has_fake()) return;
    EXPECT_TRUE(Becomes([&] { return fake_.HeldBytes(0) == 0; }));
    EXPECT_THAT(fake_.Leaks(), SizeIs(kOfAProcess));
  }

  void Receive(Peer& self) {
    BeginProcess();
    {
      ArenaTensorImporter importer;
      if (!Accepts(self, "owner", boards_->receiver, importer)) return;
      // The owner keeps its tensor, or is dead and reclaims nothing.
      TENON_ASSERT_OK_AND_ASSIGN(std::optional<Tensor> tensor,
                                 importer.Claim(boards_->receiver.tensor));
      EXPECT_TRUE(HasNumbers(*tensor, 7));
      self.Step("claimed");
      self.Await("owner", "let go").IgnoreError();
      EXPECT_TRUE(HasNumbers(*tensor, 7));
      // Also if the owner is dead.
      Give(self, "third", boards_->third, *tensor);
      self.Await("third", "claimed").IgnoreError();
      EXPECT_TRUE(HasNumbers(*tensor, 7));
    }
    EndReceiver(self);
  }

  void PlayThird(Peer& self) {
    BeginProcess();
    {
      ArenaTensorImporter importer;
      if (!Accepts(self, "receiver", boards_->third, importer)) return;
      const absl::StatusOr<Tensor> tensor =
          importer.Claim(boards_->third.tensor);
      if (!tensor.ok()) {
        // Only if the receiver was killed before.
        EXPECT_THAT(tensor, StatusIs(absl::StatusCode::kDataLoss));
        EXPECT_THAT(self.Await("receiver", "released"),
                    StatusIs(absl::StatusCode::kUnavailable));
        self.Note("a tensor that a killed process forwarded was lost");
        return;
      }
      self.Step("claimed");
      self.Await("receiver", "released").IgnoreError();
      EXPECT_TRUE(HasNumbers(*tensor, 7));
    }
    EndReceiver(self);
  }

  void RunMatrix(const std::string& points, KillMethod method) {
    KillScenario scenario;
    scenario.name = absl::StrCat("device memory, ", points);
    scenario.method = method;
    scenario.points = points;
    scenario.prepare = [&] { boards_.Reset(); };
    scenario.roles = {{"owner", [&](Peer& self) { Own(self); }},
                      {"receiver", [&](Peer& self) { Receive(self); }},
                      {"third", [&](Peer& self) { PlayThird(self); }}};
    scenario.check = [&](const Reporter&, const std::vector<KillOrder>&) {
      if (!has_fake()) return;
      fake_.Reset(machine_);
      EXPECT_TRUE(Becomes([&] { return fake_.HeldBytes(0) == 0; }));
    };
    scenario.watchdog = absl::Seconds(40);
    scenario.max_failures = 3;
    const Census before = TakeCensus();
    const KillReport report = RunKillMatrix(scenario);
    std::cout << report.ToString();
    EXPECT_TRUE(report.failures.empty()) << report.ToString();
    EXPECT_FALSE(report.given_up);
    EXPECT_GT(report.kills, 0u);
    // Only a process that outlives another one removes it.
    if (method == KillMethod::kStop) {
      EXPECT_THAT(
          report.unreached,
          AnyOf(IsEmpty(), testing::ElementsAre("attachments.burying")));
    } else {
      EXPECT_THAT(report.unreached, IsEmpty());
    }
    EXPECT_TRUE(ExpectSame(before, TakeCensus()));
  }

 private:
  // Shorter than the watchdog.
  static Deadline Patience() { return Deadline::After(absl::Seconds(15)); }

  void BeginProcess() {
    if (has_fake()) {
      fake_.Reset(machine_);
      fake_.SetEnvironment();
    }
    ASSERT_THAT(GetDriver(), IsOk());
  }

  static Tensor Half(DevicePool& pool, int64_t first) {
    absl::StatusOr<Tensor> tensor =
        pool.CreateTensor(kDtypeOf<int64_t>, {kHalf}, Patience());
    EXPECT_THAT(tensor, IsOk());
    EXPECT_THAT(tensor->CopyFrom(Numbers(kHalf, first)), IsOk());
    return *std::move(tensor);
  }

  // A held tensor must not be in memory that the pool hands out.
  static void Overwrite(DevicePool& pool) {
    std::vector<Tensor> tensors;
    for (size_t held = 0; held < kQuota; held += kPage / 2) {
      absl::StatusOr<Tensor> tensor =
          pool.CreateTensor(kDtypeOf<int64_t>, {kHalf}, Deadline::Passed());
      if (!tensor.ok()) break;
      EXPECT_THAT(tensor->CopyFrom(Numbers(kHalf, -7)), IsOk());
      tensors.push_back(*std::move(tensor));
    }
    // Of four the receiver has one.
    EXPECT_GE(tensors.size(), 3u);
  }

  static void Give(Peer& self, absl::string_view other, TensorBoard& board,
                   const Tensor& tensor) {
    TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, Offer(tensor));
    TENON_ASSERT_OK_AND_ASSIGN(board.tensor, Describe(tensor));
    EXPECT_THAT(GiveOffer(self, other, board.offer, offer), MayHaveDied());
  }

  // False if the offering process was killed before.
  static bool Accepts(Peer& self, absl::string_view from,
                      const TensorBoard& board, ArenaTensorImporter& importer) {
    const absl::Status accepted = [&]() -> absl::Status {
      TENON_RETURN_IF_ERROR(
          self.Await(from, absl::StrCat("offered to ", self.name())));
      std::vector<UniqueFd> fds;
      for (uint64_t i = 0; i < board.offer.fds; ++i) {
        TENON_ASSIGN_OR_RETURN(UniqueFd fd, self.TakeFd(from));
        fds.push_back(std::move(fd));
      }
      return importer.Accept(
          absl::string_view(board.offer.bytes, board.offer.size),
          std::move(fds));
    }();
    EXPECT_THAT(accepted, MayHaveDied());
    return accepted.ok();
  }

  void EndReceiver(Peer& self) {
    self.Step("released");
    if (!has_fake()) return;
    // A thread of its own has unmapped all.
    EXPECT_TRUE(Becomes([&] { return fake_.Leaks().size() == kOfAProcess; }))
        << testing::PrintToString(fake_.Leaks());
  }

  SharedObject<TensorBoards> boards_;
};

TEST_F(DeviceKillPointsTest, KilledAtEachPointOfDeviceMemory) {
  RunMatrix("device_memory.", KillMethod::kKill);
}

TEST_F(DeviceKillPointsTest, StoppedAtEachPointOfDeviceMemory) {
  RunMatrix("device_memory.", KillMethod::kStop);
}

TEST_F(DeviceKillPointsTest, KilledAtEachPointOfArenaAndLedger) {
  // There each process takes half a second to begin.
  if (!has_fake()) GTEST_SKIP() << "takes minutes with the machine's driver";
  for (const char* const points :
       {"att", "column.", "control_memory.", "arena_table.", "arena."}) {
    RunMatrix(points, KillMethod::kKill);
  }
}

}  // namespace
}  // namespace tenon::cuda_ipc
