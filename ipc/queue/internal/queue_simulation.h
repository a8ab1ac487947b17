// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// One ring of a queue, its owner and two getters, under the seeded scheduler:
// the steps are those of queue_protocol.h and sleep_protocol.h, events replace
// eventfds, and the ends of threads replace pidfds. There is no spinning: each
// wait that does not end at once is a sleep, so that a lost wake-up shows as a
// deadlock.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_SIMULATION_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_SIMULATION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tenon/ipc/doorbell/sim_fence.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_event.h"

namespace tenon {

// The correct protocol; wrong variants override one of its members.
struct SimQueueProtocol : QueueProtocol, SleepProtocol {
  static constexpr bool kRingAll = true;       // Else only the first sleeper.
  static constexpr bool kCheckCopy = true;     // Before a claim.
  static constexpr bool kCas = true;           // Else load and store.
  static constexpr bool kGetBeforeEnd = true;  // After the owner's death.
};

// The thread that may be killed.
enum class QueueVictim { kNobody, kPutter, kGetter };

template <typename P, uint64_t kSlots = 2>
class QueueSimulation {
 public:
  QueueSimulation(Schedule& schedule, QueueVictim victim,
                  Publication publication = Publication::kSequential)
      : schedule_(schedule), victim_(victim), publication_(publication) {
    schedule.Name(head_, "head");
    schedule.Name(take_, "take");
    schedule.Name(closed_, "closed");
    schedule.Name(sleeping_, "put_sleeping");
    for (int g = 0; g < kGetters; ++g) {
      schedule.Name(of_[Index(g)].sleeping, "get_sleeping", g);
    }
    for (size_t i = 0; i < words_.size(); ++i) {
      schedule.Name(words_[i], "word", static_cast<int>(i));
    }
  }

  void Run() {
    const auto put = [this] { Put(); };
    putter_ = victim_ == QueueVictim::kPutter
                  ? schedule_.AddKillableThread("putter", put)
                  : schedule_.AddThread("putter", put);
    for (int g = 0; g < kGetters; ++g) {
      const auto get = [this, g] { Get(of_[Index(g)]); };
      const char* const name = g == 0 ? "getter 0" : "getter 1";
      of_[Index(g)].thread = victim_ == QueueVictim::kGetter && g == 0
                                 ? schedule_.AddKillableThread(name, get)
                                 : schedule_.AddThread(name, get);
    }
    schedule_.Run();
    // The getter that has moved `take` counts it without a point of death in
    // between.
    const uint64_t put_items =
        SimAtomics::Load(head_, std::memory_order_seq_cst);
    for (uint64_t i = 0; i < put_items; ++i) {
      const bool was_got = got_[i] == 1;
      TENON_SIM_CHECK(was_got);
    }
  }

 private:
  using Word = SharedWord<uint64_t>;
  using Item = std::array<uint64_t, 2>;  // So that torn items are detected.
  using Slots = QueueSlots<SimAtomics, P>;
  static constexpr int kGetters = 2;
  static constexpr uint64_t kItems = 4;

  struct OfGetter {
    Word sleeping{0};
    SimEvent bell{"getter's bell"};
    int thread = 0;
    Ringer<SimAtomics, P> ringer;  // The putter's.
  };

  static size_t Index(int g) { return static_cast<size_t>(g); }
  Slots MakeSlots() { return Slots(words_.data(), kSlots, sizeof(Item)); }

  void RingAll() {
    for (OfGetter& getter : of_) {
      if (!getter.ringer.MustRing(getter.sleeping)) continue;
      getter.bell.Notify();
      if (!P::kRingAll) return;
    }
  }

  void Put() {
    QueueWriter<SimAtomics, P> writer(&head_, &take_, MakeSlots(), kSlots);
    Sleeper<SimAtomics, P> sleeper(&sleeping_);
    for (uint64_t i = 1; i <= kItems; ++i) {
      const auto room = [&] {
        const bool good = writer.Refresh();
        TENON_SIM_CHECK(good);
        return writer.KnowsRoom(1);
      };
      SleepUntil(sleeper, room);
      const Item item = {i, ~i};
      writer.Write(0, reinterpret_cast<const std::byte*>(item.data()));
      writer.Publish(1, publication_);
      RingAll();
    }
    // Does not close before all is taken: nothing else wakes a getter then.
    SleepUntil(sleeper, [&] {
      const bool good = writer.Refresh();
      TENON_SIM_CHECK(good);
      return writer.taken() == kItems;
    });
    SimAtomics::Store(closed_, 1, std::memory_order_seq_cst);
    RingAll();
  }

  // Waits as the putter, which sees the death of getter 0 once.
  template <typename Ready>
  void SleepUntil(Sleeper<SimAtomics, P>& sleeper, const Ready& ready) {
    while (!ready()) {
      if (!sleeper.FallAsleep(fence_, ready)) return;
      if (death_noted_) {
        bell_.Wait();
      } else {
        death_noted_ = !bell_.WaitUnlessEnds(of_[0].thread);
      }
      sleeper.Awake();
    }
  }

  void Get(OfGetter& self) {
    QueueTaker<SimAtomics, P> taker(&head_, &take_, MakeSlots(), kSlots);
    Sleeper<SimAtomics, P> sleeper(&self.sleeping);
    Ringer<SimAtomics, P> ringer;
    bool ended = false;
    for (;;) {
      // In this order: items put before the end are seen.
      bool over = ended || IsClosed();
      if (!Sees(taker)) {
        if (over) return;
        const auto ready = [&] { return Sees(taker) || IsClosed(); };
        if (sleeper.FallAsleep(fence_, ready)) {
          ended = !self.bell.WaitUnlessEnds(putter_);
          sleeper.Awake();
          if (ended && !P::kGetBeforeEnd) return;
        }
        continue;
      }
      Take(taker, ringer);
    }
  }

  bool IsClosed() {
    return SimAtomics::Load(closed_, std::memory_order_seq_cst) != 0;
  }
  bool Sees(QueueTaker<SimAtomics, P>& taker) {
    const bool good = taker.Refresh();
    TENON_SIM_CHECK(good);
    return taker.available() != 0;
  }

  static void CheckItem(const Item& item, uint64_t position) {
    const bool whole = item[1] == ~item[0];
    TENON_SIM_CHECK(whole);
    const bool right = item[0] == position + 1;
    TENON_SIM_CHECK(right);
  }

  void Take(QueueTaker<SimAtomics, P>& taker, Ringer<SimAtomics, P>& ringer) {
    Item item = {};
    auto* const bytes = reinterpret_cast<std::byte*>(item.data());
    const uint64_t position = taker.position();
    if (P::kCopyFirst) {
      taker.Copy(0, bytes);
      // The copy that a claim would use.
      if (!P::kCheckCopy || taker.StillThere()) CheckItem(item, position);
    }
    if (P::kCas) {
      if (!taker.Take(1)) return;
    } else {
      SimAtomics::Store(take_, position + 1, std::memory_order_seq_cst);
    }
    const bool first = ++got_[position] == 1;
    TENON_SIM_CHECK(first);
    if (!P::kCopyFirst) taker.Copy(0, bytes);
    CheckItem(item, position);
    if (ringer.MustRing(sleeping_)) bell_.Notify();
  }

  Schedule& schedule_;
  const QueueVictim victim_;
  const Publication publication_;
  const SimFence fence_{publication_};
  Word head_{0};
  Word take_{0};
  Word closed_{0};
  Word sleeping_{0};  // The putter's.
  SimEvent bell_{"putter's bell"};
  int putter_ = 0;
  bool death_noted_ = false;  // Of getter 0, by the putter.
  std::array<OfGetter, kGetters> of_;
  std::array<Word, 2 * kSlots> words_ = {};
  std::array<int, kItems> got_ = {};
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_SIMULATION_H_
