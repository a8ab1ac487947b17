// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/proof/random_kills.h"

#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/every_memory.h"
#include "tenon/shm/arena/internal/mailbox.h"
#include "tenon/shm/arena/proof/arena_kill_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon {
namespace {

constexpr size_t kMaxPlayers = 32;
constexpr size_t kBlock = 4096;
// After so many letters a receiver detaches, and attaches anew.
constexpr int kLettersPerAttachment = 50;
constexpr absl::Duration kLifetime = absl::Minutes(30);

// State of one process and its successors.
struct Player {
  Mailbox inbox;
  std::atomic<uint64_t> incarnation{1};
  // The incarnation to be killed: set before the kill. And set after.
  std::atomic<uint64_t> doomed{0};
  std::atomic<uint64_t> gone{0};
  std::atomic<uint64_t> claims{0};
  std::atomic<uint64_t> lost{0};
};

struct Board {
  std::array<Player, kMaxPlayers> players;
  std::atomic<bool> end{false};
};

// One wait: yields a few times, then sleeps. On a busy machine processes that
// only yield delay the owner, for which all others wait.
class Nap {
 public:
  void operator()() {
    if (++naps_ < kYields) {
      sched_yield();
    } else {
      absl::SleepFor(absl::Microseconds(20));
    }
  }

 private:
  static constexpr int kYields = 20;
  int naps_ = 0;
};

// One receiver. Even ones forward to the next odd one.
class Receiver {
 public:
  Receiver(Board& board, size_t index, const ArenaOffer& offer,
           const Reporter& reporter)
      : board_(board),
        index_(index),
        self_(board.players[index]),
        me_(self_.incarnation.load()),
        offer_(offer),
        reporter_(reporter) {}

  void Play() {
    if (Forwards()) Next().inbox.Clear();  // A letter of a dead predecessor.
    Nap nap;
    while (!board_.end.load(std::memory_order_relaxed)) {
      auto attached = AttachTo(offer_);
      if (!attached.ok()) {
        // The owner may not have read its inbox for a while.
        if (!absl::IsResourceExhausted(attached.status())) {
          reporter_.Fail(attached.status().ToString());
        }
        nap();
        continue;
      }
      for (int i = 0; i < kLettersPerAttachment; ++i) {
        if (!ReceiveOne(**attached)) return;
      }
    }
  }

 private:
  bool Forwards() const { return index_ % 2 == 0; }
  Player& Next() const { return board_.players[index_ + 1]; }

  // False if the run is over.
  bool ReceiveOne(AttachedArena& arena) {
    std::optional<Mailbox::Letter> letter;
    Nap nap;
    while (!(letter = self_.inbox.Read()).has_value() ||
           letter->receiver != me_) {
      if (board_.end.load(std::memory_order_relaxed)) return false;
      nap();
    }
    auto hold = arena.Claim(letter->block);
    self_.inbox.Acknowledge(*letter);
    if (!hold.ok()) {
      Lost(*letter, hold.status());
      return true;
    }
    self_.claims.fetch_add(1, std::memory_order_relaxed);
    Check(*hold, "at the claim");
    if (Forwards()) Forward(*hold);
    Check(*hold, "before the release");
    hold->Reset();
    return true;
  }

  void Check(const Hold& hold, const char* when) const {
    if (HasPattern(hold.bytes(), hold.descriptor())) return;
    reporter_.Fail(absl::StrCat("player ", index_, ": wrong bytes ", when));
  }

  void Forward(const Hold& hold) {
    Player& next = Next();
    const uint64_t receiver = next.incarnation.load();
    next.inbox.Send(hold.descriptor(), me_, receiver);
    Nap nap;
    while (next.inbox.state() == Mailbox::kFull) {
      if (board_.end.load(std::memory_order_relaxed)) break;
      if (next.gone.load() >= receiver) break;
      nap();
    }
    next.inbox.Clear();
  }

  // Only the death of one of the two justifies a loss.
  void Lost(const Mailbox::Letter& letter, const absl::Status& why) {
    self_.lost.fetch_add(1, std::memory_order_relaxed);
    const bool from_the_dead =
        !Forwards() &&
        board_.players[index_ - 1].doomed.load() >= letter.sender;
    const bool over = board_.end.load();
    const bool dying = self_.doomed.load() >= me_;
    if (absl::IsDataLoss(why) && (from_the_dead || over || dying)) return;
    reporter_.Fail(absl::StrCat("player ", index_, ": ", why.ToString()));
  }

  Board& board_;
  const size_t index_;
  Player& self_;
  const uint64_t me_;
  const ArenaOffer& offer_;
  const Reporter& reporter_;
};

// The owner, which also kills.
class Run {
 public:
  explicit Run(const RandomKillOptions& options)
      : options_(options), random_(options.seed), sent_(options.pairs) {}

  absl::StatusOr<RandomKillReport> Go() {
    const absl::Time began = absl::Now();
    TENON_ASSIGN_OR_RETURN(
        arena_, CreateArena(SmallArena(options_.strategy, options_.shm_prefix,
                                       options_.blocks, kBlock)));
    TENON_ASSIGN_OR_RETURN(Block any, arena_->TryAllocate(kBlock));
    TENON_ASSIGN_OR_RETURN(offer_, arena_->Offer(any));
    any.Reset();
    for (size_t i = 0; i < 2 * options_.pairs; ++i) {
      TENON_ASSIGN_OR_RETURN(ForkedChild child, Fork(i));
      children_.push_back(std::move(child));
    }
    absl::Time shown = began;
    while (report_.kills + report_.stops < options_.kills + options_.stops) {
      Serve();
      TENON_RETURN_IF_ERROR(Hit());
      Count();
      const absl::Time now = absl::Now();
      report_.time = now - began;
      if (report_.failures.size() >= options_.max_failures) break;
      if (report_.time > options_.budget) break;
      if (options_.progress == nullptr || now - shown < absl::Seconds(1)) {
        continue;
      }
      shown = now;
      options_.progress(report_);
    }
    End();
    report_.time = absl::Now() - began;
    return std::move(report_);
  }

 private:
  absl::StatusOr<ForkedChild> Fork(size_t index) {
    return ForkedChild::Fork(
        {.name = absl::StrCat("player ", index), .watchdog = kLifetime},
        [&](const Reporter& reporter) {
          Receiver(*board_, index, offer_, reporter).Play();
        });
  }

  // Sends blocks to first receivers for a random time of up to 1 ms.
  void Serve() {
    const absl::Time until = absl::Now() + absl::Microseconds(random_() % 1000);
    Nap nap;
    do {
      bool moved = false;
      for (size_t pair = 0; pair < options_.pairs; ++pair) {
        moved |= ServePair(pair);
      }
      if (!moved) nap();
    } while (absl::Now() < until);
  }

  bool ServePair(size_t pair) {
    Mailbox& mailbox = board_->players[2 * pair].inbox;
    if (mailbox.state() == Mailbox::kFull) return false;
    mailbox.Clear();
    sent_[pair] = SentBlock();  // Acknowledged: released.
    auto sent = MakeSentBlock(*arena_, kBlock);
    if (!sent.ok()) {
      ++report_.waits;
      return false;
    }
    sent_[pair] = *std::move(sent);
    mailbox.Send(sent_[pair].message, 0,
                 board_->players[2 * pair].incarnation.load());
    ++report_.sent;
    return true;
  }

  // Kills a process and starts its successor; or stops one for a while.
  absl::Status Hit() {
    const size_t index = random_() % children_.size();
    const uint64_t left_kills = options_.kills - report_.kills;
    const uint64_t left_stops = options_.stops - report_.stops;
    if (random_() % (left_kills + left_stops) < left_stops) {
      ++report_.stops;
      return StopOne(index);
    }
    ++report_.kills;
    return KillOne(index);
  }

  absl::Status StopOne(size_t index) {
    const PidFd& pid = children_[index].pid_fd();
    TENON_RETURN_IF_ERROR(pid.SendSignal(SIGSTOP));
    Serve();  // The others continue.
    return pid.SendSignal(SIGCONT);
  }

  absl::Status KillOne(size_t index) {
    Player& player = board_->players[index];
    const uint64_t incarnation = player.incarnation.load();
    player.doomed.store(incarnation);
    // One that has ended by itself is a failure.
    if (children_[index].Wait(Deadline::Passed()).ok()) {
      report_.failures.push_back(absl::StrCat("player ", index, " ended"));
    }
    children_[index].Kill();
    TakeReport(index);
    player.gone.store(incarnation);
    player.incarnation.store(incarnation + 1);
    if (index % 2 == 0) {
      // Releases blocks that it had not acknowledged.
      player.inbox.Clear();
      sent_[index / 2] = SentBlock();
    }
    TENON_ASSIGN_OR_RETURN(children_[index], Fork(index));
    return absl::OkStatus();
  }

  void TakeReport(size_t index) {
    for (const std::string& failure : children_[index].report().failures) {
      report_.failures.push_back(failure);
    }
  }

  void Count() {
    report_.hand_overs = 0;
    report_.lost = 0;
    for (const Player& player : board_->players) {
      report_.hand_overs += player.claims.load(std::memory_order_relaxed);
      report_.lost += player.lost.load(std::memory_order_relaxed);
    }
  }

  void End() {
    board_->end.store(true);
    for (size_t i = 0; i < children_.size(); ++i) {
      const testing::AssertionResult well = children_[i].EndsWell();
      if (!well) report_.failures.push_back(well.message());
    }
    Count();
    children_.clear();
    sent_.clear();
    std::vector<Block> all;
    for (size_t i = 0; i < options_.blocks; ++i) {
      absl::StatusOr<Block> block = arena_->TryAllocate(kBlock);
      if (block.ok()) {
        all.push_back(*std::move(block));
      } else {
        report_.failures.push_back(absl::StrCat(
            "block ", i, " was not reclaimed: ", block.status().ToString()));
      }
    }
    if (!arena_->Holders().ok() || arena_->Use().attached != 0) {
      report_.failures.push_back("dead processes are still attached");
    }
  }

  const RandomKillOptions& options_;
  std::mt19937_64 random_;
  SharedObject<Board> board_;
  std::shared_ptr<Arena> arena_;
  ArenaOffer offer_;
  std::vector<SentBlock> sent_;  // By pair.
  std::vector<ForkedChild> children_;
  RandomKillReport report_;
};

}  // namespace

std::string RandomKillReport::ToString() const {
  std::string text = absl::StrCat(
      kills, " kills, ", stops, " stops, ", sent, " blocks sent, ", hand_overs,
      " hand-overs, ", lost, " lost with their sender, ", waits,
      " times no block was free, ", failures.size(), " failures, ",
      absl::FormatDuration(absl::Trunc(time, absl::Milliseconds(1))), "\n");
  for (const std::string& failure : failures) {
    absl::StrAppend(&text, "FAILED: ", failure, "\n");
  }
  return text;
}

absl::StatusOr<RandomKillReport> RunRandomKills(
    const RandomKillOptions& options) {
  if (options.pairs == 0 || 2 * options.pairs > kMaxPlayers) {
    return absl::InvalidArgumentError(
        "RunRandomKills(): invalid number of pairs");
  }
  return Run(options).Go();
}

}  // namespace tenon
