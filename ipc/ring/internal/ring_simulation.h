// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Rings under the seeded scheduler: the steps are those of ring_protocol.h and
// sleep_protocol.h, events replace eventfds, and the ends of threads replace
// pidfds. There is no spinning: each wait that does not end at once is a sleep,
// so that a lost wake-up shows as a deadlock.

#ifndef TENON_IPC_RING_INTERNAL_RING_SIMULATION_H_
#define TENON_IPC_RING_INTERNAL_RING_SIMULATION_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tenon/ipc/doorbell/sim_fence.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/ring/internal/ring_protocol.h"
#include "tenon/ipc/slots/slot_array.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_event.h"
#include "tenon/shm/testing/scheduler/sim_var.h"

namespace tenon {

// The correct protocol; wrong variants override one of its members.
struct SimRingProtocol : RingProtocol, SleepProtocol {
  static constexpr bool kCopyFirst = true;  // Else acknowledge, then copy.
  static constexpr bool kReadBeforeDeath = true;
};

// The thread that may be killed.
enum class SimVictim { kNobody, kProducer, kReader };

constexpr uint64_t kSimSlots = 2;

// Slots of plain data: detects every unordered access.
struct SimPlainSlots {
  std::array<SimVar<uint64_t>, kSimSlots>* slots = nullptr;

  void Write(uint64_t position, uint64_t value) {
    (*slots)[position % kSimSlots] = value;
  }
  void Read(uint64_t position, uint64_t& value) const {
    value = (*slots)[position % kSimSlots];
  }
  void ExpectWrite(uint64_t) const {}
};

// A ring with kWait, and one or two readers, each of which receives every
// record in order.
template <typename P>
class WaitingRingSimulation {
 public:
  WaitingRingSimulation(Schedule& schedule, int readers, SimVictim victim,
                        Publication publication)
      : schedule_(schedule),
        readers_(readers),
        victim_(victim),
        publication_(publication) {
    schedule.Name(head_, "head");
    schedule.Name(sleeping_, "sleeping");
    for (int r = 0; r < readers; ++r) {
      schedule.Name(of_[r].tail, "tail", r);
      schedule.Name(of_[r].sleeping, "sleeping", r);
    }
    for (size_t i = 0; i < kSimSlots; ++i) {
      slots_[i].set_label("slot", static_cast<int>(i));
    }
  }

  void Run() {
    const auto produce = [this] { Produce(); };
    producer_ = victim_ == SimVictim::kProducer
                    ? schedule_.AddKillableThread("producer", produce)
                    : schedule_.AddThread("producer", produce);
    for (int r = 0; r < readers_; ++r) {
      const auto read = [this, r] { Read(r); };
      const char* const name = r == 0 ? "reader 0" : "reader 1";
      of_[r].thread = victim_ == SimVictim::kReader && r == 0
                          ? schedule_.AddKillableThread(name, read)
                          : schedule_.AddThread(name, read);
    }
    schedule_.Run();
  }

 private:
  using Word = SharedWord<uint64_t>;
  static constexpr uint64_t kItems = 4;

  struct OfReader {
    Word tail{0};
    Word sleeping{0};
    SimEvent bell{"reader's bell"};
    int thread = 0;
    // The producer's.
    ConsumedWatch<SimAtomics, P> watch;
    Ringer<SimAtomics, P> ringer;
    bool dead = false;
  };

  bool HasRoom(uint64_t head) {
    bool room = true;
    for (int r = 0; r < readers_; ++r) {
      if (of_[r].dead) continue;
      const bool good = of_[r].watch.Refresh(head);
      TENON_SIM_CHECK(good);
      room &= head - of_[r].watch.position() < kSimSlots;
    }
    return room;
  }

  void Produce() {
    RingWriter<SimAtomics, P, SimPlainSlots> writer(&head_, nullptr,
                                                    SimPlainSlots{&slots_});
    Sleeper<SimAtomics, P> sleeper(&sleeping_);
    for (int r = 0; r < readers_; ++r) {
      of_[r].watch = ConsumedWatch<SimAtomics, P>(&of_[r].tail, 0, 0);
    }
    for (uint64_t i = 1; i <= kItems; ++i) {
      const auto room = [&] { return HasRoom(writer.head()); };
      while (!room()) {
        if (!sleeper.FallAsleep(fence_, room)) break;
        // Only the first reader can die.
        of_[0].dead = !bell_.WaitUnlessEnds(of_[0].thread);
        sleeper.Awake();
      }
      writer.Reserve(1);
      writer.Write(0, i);
      writer.Publish(1, publication_);
      for (int r = 0; r < readers_; ++r) {
        if (of_[r].ringer.MustRing(of_[r].sleeping)) of_[r].bell.Notify();
      }
    }
  }

  void Read(int r) {
    OfReader& self = of_[r];
    RingCursor<SimAtomics, P, SimPlainSlots> cursor(
        &head_, nullptr, &self.tail, SimPlainSlots{&slots_}, kSimSlots);
    Sleeper<SimAtomics, P> sleeper(&self.sleeping);
    Ringer<SimAtomics, P> ringer;
    for (uint64_t expected = 1; expected <= kItems; ++expected) {
      const auto ready = [&] {
        const bool good = cursor.Refresh(/*overwrites=*/false);
        TENON_SIM_CHECK(good);
        return cursor.available() != 0;
      };
      while (!ready()) {
        if (!sleeper.FallAsleep(fence_, ready)) break;
        const bool lives = self.bell.WaitUnlessEnds(producer_);
        sleeper.Awake();
        if (lives) continue;
        if (!P::kReadBeforeDeath || !ready()) return CheckEnd(expected);
        break;
      }
      uint64_t value = 0;
      if (P::kCopyFirst) cursor.Copy(0, value);
      cursor.Advance(1, publication_);
      if (!P::kCopyFirst) {
        slots_copy_ = SimPlainSlots{&slots_};
        slots_copy_.Read(cursor.tail() - 1, value);
      }
      TENON_SIM_CHECK(value == expected);
      if (ringer.MustRing(sleeping_)) bell_.Notify();
    }
  }

  // The producer has ended: checks that all of its records were read.
  void CheckEnd(uint64_t next) {
    const bool all_was_read =
        SimAtomics::Load(head_, std::memory_order_seq_cst) == next - 1;
    TENON_SIM_CHECK(all_was_read);
  }

  Schedule& schedule_;
  const int readers_;
  const SimVictim victim_;
  const Publication publication_;
  const SimFence fence_{publication_};
  Word head_{0};
  Word sleeping_{0};  // The producer's.
  SimEvent bell_{"producer's bell"};
  int producer_ = 0;
  std::array<OfReader, 2> of_;
  std::array<SimVar<uint64_t>, kSimSlots> slots_;
  SimPlainSlots slots_copy_;
};

// A ring whose producer does not wait, and one reader, which detects its losses
// and never uses a record that was overwritten during the copy. Records of two
// words, so that torn ones are detected.
template <typename P>
class OverwritingRingSimulation {
 public:
  OverwritingRingSimulation(Schedule& schedule, Publication publication)
      : schedule_(schedule), publication_(publication) {
    schedule.Name(head_, "head");
    schedule.Name(reserved_, "reserved");
    for (size_t i = 0; i < words_.size(); ++i) {
      schedule.Name(words_[i], "word", static_cast<int>(i));
    }
  }

  void Run() {
    schedule_.AddThread("producer", [this] { Produce(); });
    schedule_.AddThread("reader", [this] { Read(); });
    schedule_.Run();
  }

 private:
  using Word = SharedWord<uint64_t>;
  using Record = std::array<uint64_t, 2>;
  static constexpr uint64_t kItems = 5;

  SlotArray<SimAtomics, P> Slots() {
    return SlotArray<SimAtomics, P>(words_.data(), kSimSlots, sizeof(Record),
                                    2);
  }

  void Produce() {
    RingWriter<SimAtomics, P> writer(&head_, &reserved_, Slots());
    Ringer<SimAtomics, P> ringer;
    for (uint64_t i = 1; i <= kItems; ++i) {
      const Record record = {i, ~i};
      writer.Reserve(1);
      writer.Write(0, reinterpret_cast<const std::byte*>(record.data()));
      writer.Publish(1, publication_);
      if (ringer.MustRing(sleeping_)) bell_.Notify();
    }
  }

  void Read() {
    RingCursor<SimAtomics, P> cursor(&head_, &reserved_, &tail_, Slots(),
                                     kSimSlots);
    Sleeper<SimAtomics, P> sleeper(&sleeping_);
    while (cursor.tail() < kItems) {
      const auto ready = [&] {
        const bool good = cursor.Refresh(/*overwrites=*/true);
        TENON_SIM_CHECK(good);
        return cursor.available() != 0;
      };
      while (!ready()) {
        if (!sleeper.FallAsleep(fence_, ready)) break;
        bell_.Wait();
        sleeper.Awake();
      }
      Record record;
      cursor.Copy(0, reinterpret_cast<std::byte*>(record.data()));
      const uint64_t lost = cursor.Lost();
      TENON_SIM_CHECK(lost <= kItems);
      if (lost == 0) {
        const bool whole = record[1] == ~record[0];
        TENON_SIM_CHECK(whole);
        const bool in_order = record[0] == cursor.tail() + 1;
        TENON_SIM_CHECK(in_order);
      }
      cursor.Advance(std::max<uint64_t>(lost, 1), publication_);
    }
  }

  Schedule& schedule_;
  const Publication publication_;
  const SimFence fence_{publication_};
  Word head_{0};
  Word reserved_{0};
  Word tail_{0};
  Word sleeping_{0};
  SimEvent bell_{"bell"};
  std::array<Word, kSimSlots* 2> words_ = {};
};

}  // namespace tenon

#endif  // TENON_IPC_RING_INTERNAL_RING_SIMULATION_H_
