// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/weak_memory.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "tenon/shm/base/check.h"
#include "tenon/shm/testing/scheduler/word_history.h"

namespace tenon {
namespace {

bool Acquires(std::memory_order order) {
  return order != std::memory_order_relaxed &&
         order != std::memory_order_release;
}

bool Releases(std::memory_order order) {
  return order == std::memory_order_release ||
         order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

bool Sequential(std::memory_order order) {
  return order == std::memory_order_seq_cst;
}

void Raise(uint32_t& value, uint32_t to) { value = std::max(value, to); }

}  // namespace

void WeakMemory::Reset(ScheduleRandom* random) {
  const auto clear = [this](View& view) {
    std::fill_n(view.begin(), slots_, 0);
  };
  for (Thread& thread : threads_) {
    clear(thread.view);
    clear(thread.loaded);
    thread.released = {};
    thread.waited = false;
  }
  clear(sequential_);
  snapshots_.clear();
  words_used_ = 0;
  slots_ = kMaxThreads;

  random_ = random;
  static constexpr uint32_t kStale[] = {0, 64, 128, 224};
  static constexpr uint32_t kDisplace[] = {0, 0, 64, 128};
  stale_chance_ = kStale[random->Below(std::size(kStale))];
  displace_chance_ = kDisplace[random->Below(std::size(kDisplace))];
}

int WeakMemory::AddWord(uint64_t value, int bits) {
  TENON_CHECK(words_used_ < kMaxWords, "too many words in one schedule");
  const int word = words_used_++;
  if (words_.size() < static_cast<size_t>(words_used_)) words_.emplace_back();
  words_[word].Reset(value, bits);
  slots_ = kMaxThreads + words_used_;
  return word;
}

WeakMemory::Result WeakMemory::Load(int thread, int word,
                                    std::memory_order order) {
  const WordHistory& w = words_[word];
  const size_t index = PickLoad(thread, w, Oldest(thread, word, order),
                                [](size_t) { return true; });
  Loaded(thread, word, w[index], order);
  return {w[index].value, index == w.last()};
}

void WeakMemory::Store(int thread, int word, uint64_t value,
                       std::memory_order order) {
  WordHistory& w = words_[word];
  Thread& t = threads_[thread];
  const uint32_t oldest = Oldest(thread, word, order);
  size_t after = w.last();
  for (size_t i = after;
       i > 0 && w[i - 1].time >= oldest && random_->Chance(displace_chance_);) {
    if (w.CanFollow(--i)) after = i;
  }
  Message& message = w.Insert(after, value, /*glued=*/false);
  t.view[kMaxThreads + word] = message.time;
  if (Sequential(order)) sequential_[kMaxThreads + word] = message.time;
  message.view = Releases(order) ? Save(t.view) : t.released;
}

WeakMemory::Result WeakMemory::FetchAdd(int thread, int word, uint64_t value,
                                        std::memory_order order) {
  const WordHistory& w = words_[word];
  const size_t index = PickLoad(thread, w, Oldest(thread, word, order),
                                [&](size_t i) { return w.CanFollow(i); });
  const bool newest = index == w.last();
  const uint64_t before = w[index].value;
  return {before, newest, Modify(thread, word, index, before + value, order)};
}

WeakMemory::Result WeakMemory::CompareExchange(int thread, int word, Swap swap,
                                               std::memory_order order) {
  const WordHistory& w = words_[word];
  const size_t index = PickLoad(
      thread, w, Oldest(thread, word, order),
      [&](size_t i) { return w[i].value != swap.expected || w.CanFollow(i); });
  const bool newest = index == w.last();
  const Message message = w[index];
  if (message.value == swap.expected) {
    return {message.value, newest,
            Modify(thread, word, index, swap.desired, order)};
  }
  Loaded(thread, word, message, order);
  return {message.value, newest, 0, /*swapped=*/false};
}

void WeakMemory::Fence(int thread, std::memory_order order) {
  Thread& t = threads_[thread];
  if (Acquires(order)) {
    for (size_t i = 0; i < slots_; ++i) Raise(t.view[i], t.loaded[i]);
  }
  if (Sequential(order)) {
    // Positions only: fences order visibility, they do not synchronise.
    for (size_t i = kMaxThreads; i < slots_; ++i) {
      Raise(t.view[i], sequential_[i]);
      sequential_[i] = t.view[i];
    }
  }
  if (Releases(order)) t.released = Save(t.view);
}

void WeakMemory::FenceAll(int thread) {
  Fence(thread, std::memory_order_seq_cst);
  for (int other = 0; other < kMaxThreads; ++other) {
    if (other != thread) Fence(other, std::memory_order_seq_cst);
  }
  Fence(thread, std::memory_order_seq_cst);
}

void WeakMemory::Publish(int thread, View& view) const {
  for (size_t i = 0; i < slots_; ++i) Raise(view[i], threads_[thread].view[i]);
}

int WeakMemory::ReadPlain(int thread, PlainAccesses& data) {
  View& view = threads_[thread].view;
  data.read[thread] = ++view[thread];
  return data.writer >= 0 && data.written > view[data.writer] ? data.writer
                                                              : -1;
}

int WeakMemory::WritePlain(int thread, PlainAccesses& data) {
  View& view = threads_[thread].view;
  ++view[thread];
  int races_with = -1;
  if (data.writer >= 0 && data.written > view[data.writer]) {
    races_with = data.writer;
  }
  for (int other = 0; other < kMaxThreads; ++other) {
    if (data.read[other] > view[other]) races_with = other;
  }
  data.writer = thread;
  data.written = view[thread];
  return races_with;
}

// The oldest position that an access with this order may see.
uint32_t WeakMemory::Oldest(int thread, int word,
                            std::memory_order order) const {
  const uint32_t seen = threads_[thread].view[kMaxThreads + word];
  return Sequential(order) ? std::max(seen, sequential_[kMaxThreads + word])
                           : seen;
}

// The index of an acceptable message not older than `oldest`. The last one must
// be acceptable.
template <typename Accept>
size_t WeakMemory::PickLoad(int thread, const WordHistory& word,
                            uint32_t oldest, Accept accept) {
  Thread& t = threads_[thread];
  const uint32_t chance =
      t.waited ? std::min(stale_chance_, 32u) : stale_chance_;
  t.waited = false;
  size_t picked = word.last();
  for (size_t i = picked;
       i > 0 && word[i - 1].time >= oldest && random_->Chance(chance);) {
    --i;
    if (accept(i)) picked = i;
  }
  return picked;
}

void WeakMemory::Loaded(int thread, int word, const Message& message,
                        std::memory_order order) {
  Thread& t = threads_[thread];
  Raise(t.view[kMaxThreads + word], message.time);
  Join(Acquires(order) ? t.view : t.loaded, message.view);
  if (Sequential(order)) {
    Raise(sequential_[kMaxThreads + word], message.time);
  }
}

// A RMW that loads the message at `index`. Returns the stored value.
uint64_t WeakMemory::Modify(int thread, int word, size_t index, uint64_t value,
                            std::memory_order order) {
  WordHistory& w = words_[word];
  Thread& t = threads_[thread];
  const ViewSnapshot loaded = w[index].view;
  Loaded(thread, word, w[index], order);
  Message& message = w.Insert(index, value, /*glued=*/true);
  t.view[kMaxThreads + word] = message.time;
  if (Sequential(order)) sequential_[kMaxThreads + word] = message.time;
  if (Releases(order)) {
    message.view = SaveJoined(t.view, loaded);
  } else if (t.released.size == 0) {
    message.view = loaded;
  } else {
    View released = {};
    Join(released, t.released);
    message.view = SaveJoined(released, loaded);
  }
  return message.value;
}

void WeakMemory::JoinAll(const View& from, int thread) {
  View& view = threads_[thread].view;
  for (size_t i = 0; i < slots_; ++i) Raise(view[i], from[i]);
}

void WeakMemory::Join(View& into, ViewSnapshot from) const {
  const uint32_t* slots = snapshots_.data() + from.begin;
  for (size_t i = 0; i < from.size; ++i) Raise(into[i], slots[i]);
}

ViewSnapshot WeakMemory::Save(const View& view) {
  const ViewSnapshot saved = {static_cast<uint32_t>(snapshots_.size()),
                              static_cast<uint32_t>(slots_)};
  snapshots_.insert(snapshots_.end(), view.begin(), view.begin() + slots_);
  return saved;
}

ViewSnapshot WeakMemory::SaveJoined(const View& view, ViewSnapshot other) {
  const ViewSnapshot saved = Save(view);
  for (size_t i = 0; i < other.size; ++i) {
    Raise(snapshots_[saved.begin + i], snapshots_[other.begin + i]);
  }
  return saved;
}

}  // namespace tenon
