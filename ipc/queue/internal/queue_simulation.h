// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// One ring of a queue, its owner, the next owner and two getters, under the
// seeded scheduler: the steps are those of queue_protocol.h and
// sleep_protocol.h, events replace eventfds, and the ends of threads replace
// pidfds. There is no spinning: each wait that does not end at once is a sleep,
// so that a lost wake-up shows as a deadlock.

#ifndef TENON_IPC_QUEUE_INTERNAL_QUEUE_SIMULATION_H_
#define TENON_IPC_QUEUE_INTERNAL_QUEUE_SIMULATION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tenon/ipc/doorbell/sim_fence.h"
#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/ipc/queue/internal/queue_protocol.h"
#include "tenon/ipc/queue/internal/queue_words.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_event.h"

namespace tenon {

// The correct protocol; wrong variants override one of its members.
struct SimQueueProtocol : QueueProtocol, SleepProtocol {
  static constexpr bool kCopyFirst = true;     // Else take, then copy.
  static constexpr bool kBatchAtOnce = true;   // Else item by item.
  static constexpr bool kRingAll = true;       // Else only the first sleeper.
  static constexpr bool kCheckCopy = true;     // Before a claim.
  static constexpr bool kCas = true;           // Else load and store.
  static constexpr bool kGetBeforeEnd = true;  // After the owner's death.
  static constexpr bool kWordsFirst = true;    // Before their sequence word.
  static constexpr bool kHeadLast = true;      // After the sequence words.
};

// The thread that may be killed. With an heir, another putter inherits the slot
// at the putter's end, and puts the items that are missing.
enum class QueueVictim { kNobody, kPutter, kPutterWithHeir, kGetter };

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
    putter_ = victim_ == QueueVictim::kPutter || HasHeir()
                  ? schedule_.AddKillableThread("putter", put)
                  : schedule_.AddThread("putter", put);
    if (HasHeir()) schedule_.AddThread("heir", [this] { Inherit(); });
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
    const uint64_t put_items = FindQueueEnd(head_, take_, MakeSlots(), kSlots);
    for (uint64_t i = 0; i < put_items; ++i) {
      const bool was_got = got_[i] == 1;
      TENON_SIM_CHECK(was_got);
    }
    if (HasHeir() || victim_ == QueueVictim::kNobody) {
      const bool all_put = put_items == kItems;
      TENON_SIM_CHECK(all_put);
    } else {
      CheckBatches(put_items);
    }
  }

 private:
  using Word = SharedWord<uint64_t>;
  using Item = std::array<uint64_t, 2>;  // So that torn items are detected.
  using Slots = QueueSlots<SimAtomics, P>;
  static constexpr int kGetters = 2;
  static constexpr uint64_t kItems = 4;
  static constexpr size_t kWordsPerSlot = 1 + sizeof(Item) / sizeof(uint64_t);
  static constexpr size_t kWords = kWordsPerSlot * kSlots;

  // The putter's calls; a batch may fill the ring. The heir puts single items.
  static constexpr std::array<uint64_t, 3> kBatches = {1, 2, 1};
  static constexpr uint64_t kNotInherited = ~uint64_t{0};

  struct OfGetter {
    Word sleeping{0};
    SimEvent bell{"getter's bell"};
    int thread = 0;
  };
  // A putter's, one for each getter.
  using Ringers = std::array<Ringer<SimAtomics, P>, kGetters>;

  static size_t Index(int g) { return static_cast<size_t>(g); }
  Slots MakeSlots() {
    return Slots(words_.data(), kSlots, sizeof(Item), kWordsPerSlot);
  }
  bool HasHeir() const { return victim_ == QueueVictim::kPutterWithHeir; }

  // Items are put in whole batches, or not at all.
  static void CheckBatches(uint64_t put_items) {
    uint64_t end = 0;
    bool whole_batches = put_items == 0;
    for (const uint64_t batch : kBatches) {
      end += batch;
      if (kSlots == 1 || put_items == end) whole_batches = true;
    }
    TENON_SIM_CHECK(whole_batches);
  }

  // The heir's items differ from those that the putter wrote at the same
  // positions.
  Item ItemAt(uint64_t position) const {
    const uint64_t value =
        (position + 1) | uint64_t{position >= inherited_from_} << 32;
    return {value, ~value};
  }

  void RingAll(Ringers& ringers) {
    for (int g = 0; g < kGetters; ++g) {
      OfGetter& getter = of_[Index(g)];
      if (!ringers[Index(g)].MustRing(getter.sleeping)) continue;
      getter.bell.Notify();
      if (!P::kRingAll) return;
    }
  }

  void Put() {
    QueueWriter<SimAtomics, P> writer(&head_, &take_, MakeSlots(), kSlots);
    Sleeper<SimAtomics, P> sleeper(&sleeping_);
    Ringers ringers;
    for (const uint64_t batch : kBatches) {
      for (uint64_t left = batch; left > 0;) {
        const uint64_t count = kSlots == 1 ? 1 : left;
        PutSome(writer, sleeper, count);
        RingAll(ringers);
        left -= count;
      }
    }
    CloseOnceTaken(writer, sleeper, ringers);
  }

  // The next holder of the slot.
  void Inherit() {
    heirs_bell_.WaitUnlessEnds(putter_);
    RecoverQueueRing(head_, take_, MakeSlots(), kSlots);
    QueueWriter<SimAtomics, P> writer(&head_, &take_, MakeSlots(), kSlots);
    CheckBatches(writer.head());
    inherited_from_ = writer.head();
    Sleeper<SimAtomics, P> sleeper(&sleeping_);
    Ringers ringers;
    while (writer.head() < kItems) {
      PutSome(writer, sleeper, 1);
      RingAll(ringers);
    }
    CloseOnceTaken(writer, sleeper, ringers);
  }

  void PutSome(QueueWriter<SimAtomics, P>& writer,
               Sleeper<SimAtomics, P>& sleeper, uint64_t count) {
    const auto room = [&] {
      const bool good = writer.Refresh();
      TENON_SIM_CHECK(good);
      return writer.KnowsRoom(count);
    };
    SleepUntil(sleeper, room);
    const uint64_t first = writer.head();
    if (!P::kHeadLast) {
      SimAtomics::Store(head_, first + count, std::memory_order_release);
    }
    const uint64_t step = P::kBatchAtOnce ? count : 1;
    for (uint64_t done = 0; done < count; done += step) {
      std::array<Item, 2> items;
      for (uint64_t i = 0; i < step; ++i) items[i] = ItemAt(first + done + i);
      if (!P::kWordsFirst) {
        SimAtomics::Store(MakeSlots().sequence(first),
                          QueueSequence::Of(first, 0), P::kPublish);
      }
      writer.Write(reinterpret_cast<const std::byte*>(items.data()), step,
                   sizeof(Item));
      writer.Publish(step, publication_);
    }
    writer.StoreHead();
  }

  // Does not close before all is taken: nothing else wakes a getter then.
  void CloseOnceTaken(QueueWriter<SimAtomics, P>& writer,
                      Sleeper<SimAtomics, P>& sleeper, Ringers& ringers) {
    SleepUntil(sleeper, [&] {
      const bool good = writer.Refresh();
      TENON_SIM_CHECK(good);
      return writer.taken() == kItems;
    });
    SimAtomics::Store(closed_, 1, std::memory_order_seq_cst);
    RingAll(ringers);
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
    QueueTaker<SimAtomics, P> taker(&take_, MakeSlots(), kSlots);
    Sleeper<SimAtomics, P> sleeper(&self.sleeping);
    Ringer<SimAtomics, P> ringer;
    bool ended = false;  // The putter.
    for (;;) {
      // In this order: items put before the end are seen.
      bool over = (ended && !HasHeir()) || IsClosed();
      if (!Sees(taker)) {
        if (over) return;
        const auto ready = [&] { return Sees(taker) || IsClosed(); };
        if (sleeper.FallAsleep(fence_, ready)) {
          if (ended) {
            self.bell.Wait();
          } else {
            ended = !self.bell.WaitUnlessEnds(putter_);
          }
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
    return taker.has_item();
  }

  void CheckItem(const Item& item, uint64_t position) const {
    const bool whole = item[1] == ~item[0];
    TENON_SIM_CHECK(whole);
    const bool right = item == ItemAt(position);
    TENON_SIM_CHECK(right);
  }

  // Takes one item, or two if both are there.
  void Take(QueueTaker<SimAtomics, P>& taker, Ringer<SimAtomics, P>& ringer) {
    std::array<Item, 2> items = {};
    const uint64_t position = taker.position();
    const uint64_t count = taker.BytesAt(1) != 0 ? 2 : 1;
    const auto copy = [&] {
      if (count == 1) {
        items[0] = ReadQueueWords<2>(taker.slots(), position);
        return;
      }
      for (uint64_t i = 0; i < count; ++i) {
        taker.Copy(i, reinterpret_cast<std::byte*>(items[i].data()),
                   sizeof(Item));
      }
    };
    const auto check = [&] {
      for (uint64_t i = 0; i < count; ++i) CheckItem(items[i], position + i);
    };
    if (P::kCopyFirst) {
      copy();
      // The copy that a claim would use.
      if (!P::kCheckCopy || taker.StillThere()) check();
    }
    if (P::kCas) {
      if (!taker.Take(count)) return;
    } else {
      SimAtomics::Store(take_, position + count, std::memory_order_seq_cst);
    }
    for (uint64_t i = position; i < position + count; ++i) {
      const bool first = ++got_[i] == 1;
      TENON_SIM_CHECK(first);
    }
    if (!P::kCopyFirst) copy();
    check();
    if (ringer.MustRing(sleeping_)) bell_.Notify();
  }

  Schedule& schedule_;
  const QueueVictim victim_;
  const Publication publication_;
  const SimFence fence_{publication_};
  Word head_{0};
  Word take_{0};
  Word closed_{0};
  Word sleeping_{0};                // The putter's.
  SimEvent bell_{"putter's bell"};  // Of both putters.
  SimEvent heirs_bell_{"heir's bell"};
  int putter_ = 0;
  bool death_noted_ = false;                 // Of getter 0, by the putter.
  uint64_t inherited_from_ = kNotInherited;  // The heir's first position.
  std::array<OfGetter, kGetters> of_;
  std::array<Word, kWords> words_ = {};
  std::array<int, kItems> got_ = {};
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_INTERNAL_QUEUE_SIMULATION_H_
