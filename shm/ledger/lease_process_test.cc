// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The lease protocol among processes, one of which is killed now and then. The
// owner detects the death by its pidfd, ignores the column, and lets another
// process join.

#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/ledger/lease.h"
#include "tenon/shm/ledger/lease_stress.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

constexpr size_t kWorkers = 4;
constexpr size_t kKills = StressShared::kMembers - 1 - kWorkers;
constexpr absl::Duration kBetweenKills = absl::Milliseconds(400);

// The memory that one member writes.
struct Column {
  std::array<SharedWord<uint64_t>, StressShared::kBlocks> cells;
};

struct Worker {
  size_t member;
  ForkedChild child;
  bool shot = false;
};

class LeaseProcessTest : public testing::Test {
 protected:
  LeaseProcessTest() {
    for (size_t m = 0; m < columns_.size(); ++m) {
      cells_[m] = columns_[m]->cells.data();
    }
    owner_ = std::make_unique<StressOwner>(*shared_, cells_);
  }

  absl::Status Start() {
    const size_t member = owner_->Join();
    TENON_ASSIGN_OR_RETURN(
        ForkedChild child,
        ForkedChild::Fork({.name = "member " + std::to_string(member),
                           .watchdog = absl::Seconds(100)},
                          [&](const Reporter&) {
                            StressMember(*shared_, cells_, member).Run();
                          }));
    workers_.push_back({member, std::move(child)});
    return absl::OkStatus();
  }

  // The owner continues while it dies. If the others are `stopped` meanwhile,
  // they receive messages of the dead process about reclaimed blocks.
  void ShootOne(bool stopped) {
    Worker& worker = workers_[random_() % workers_.size()];
    if (stopped) SignalAllBut(worker, SIGSTOP);
    for (int i = 0; i < 2000 && !HasSent(worker.member); ++i) owner_->Step();
    Signal(worker, SIGKILL);
    worker.shot = true;
    const Deadline patience = Deadline::After(absl::Seconds(20));
    size_t ended = 0;
    while (ended == 0 && patience.Remaining() > absl::ZeroDuration()) {
      owner_->Step();
      ended = RemoveEnded();
    }
    for (int i = 0; i < 64; ++i) owner_->Step();
    for (Worker& other : workers_) Signal(other, SIGCONT);
  }

  // And it has not been acknowledged.
  bool HasSent(size_t member) const {
    for (const auto& to : shared_->messages[member]) {
      for (const StressShared::Message& message : to) {
        if (Value(message.state) == StressShared::kSent) return true;
      }
    }
    return false;
  }

  void SignalAllBut(const Worker& spared, int signal) {
    for (Worker& worker : workers_) {
      if (worker.member != spared.member) Signal(worker, signal);
    }
  }

  void Signal(Worker& worker, int signal) {
    EXPECT_THAT(worker.child.pid_fd().SendSignal(signal), IsOk());
  }

  // Removes members that have ended. Returns their number.
  size_t RemoveEnded() {
    return std::erase_if(workers_, [this](Worker& worker) {
      if (!worker.child.pid_fd().HasEnded()) return false;
      EXPECT_TRUE(worker.shot) << worker.child.name() << " ended by itself";
      worker.child.Kill();  // Reaps it.
      owner_->Remove(worker.member);
      return true;
    });
  }

  void RunUntil(Deadline deadline) {
    while (deadline.Remaining() > absl::ZeroDuration()) {
      for (int i = 0; i < 16; ++i) owner_->Step();
      RemoveEnded();
    }
  }

  uint64_t Value(const SharedWord<uint64_t>& word) const {
    return StdAtomics::Load(word, kRelaxed);
  }

  SharedObject<StressShared> shared_;
  std::array<SharedObject<Column>, StressShared::kMembers> columns_;
  StressCells cells_ = {};
  std::unique_ptr<StressOwner> owner_;
  std::vector<Worker> workers_;
  std::minstd_rand random_;
};

TEST_F(LeaseProcessTest, KilledHoldersAreBuriedAndNobodyElseIsHarmed) {
  while (workers_.size() < kWorkers) ASSERT_THAT(Start(), IsOk());
  for (size_t kill = 0; kill < kKills; ++kill) {
    RunUntil(Deadline::After(kBetweenKills));
    ShootOne(/*stopped=*/kill % 2 == 1);
    ASSERT_EQ(workers_.size(), kWorkers - 1);
    ASSERT_THAT(Start(), IsOk());
  }
  RunUntil(Deadline::After(kBetweenKills));

  EXPECT_TRUE(owner_->Drain(Deadline::After(absl::Seconds(60))))
      << "blocks did not come back";
  owner_->End();
  for (Worker& worker : workers_) {
    EXPECT_TRUE(worker.child.EndsWell());
    for (size_t b = 0; b < StressShared::kBlocks; ++b) {
      EXPECT_EQ(LeaseCell::Held(Value(cells_[worker.member][b])), 0);
    }
  }
  EXPECT_EQ(Value(shared_->wrong_bytes), 0);
  EXPECT_GT(owner_->reclaimed(), StressShared::kBlocks);
  RecordProperty("reclaimed", std::to_string(owner_->reclaimed()));
  RecordProperty("claims", std::to_string(Value(shared_->claims)));
  RecordProperty("losses", std::to_string(Value(shared_->losses)));
  RecordProperty("tests", std::to_string(owner_->tests()));
  RecordProperty("failures", std::to_string(owner_->failures()));
}

}  // namespace
}  // namespace tenon
