// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/kill/crash_watch.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/crash_point.h"

namespace tenon {
namespace {

static_assert(std::atomic<uint64_t>::is_always_lock_free);

std::atomic<CrashWatch*> active{nullptr};
std::atomic<int> in_hook{0};  // The number of threads.

const CrashPoint* Find(absl::string_view name) {
  for (const CrashPoint* p = LastCrashPoint(); p != nullptr; p = p->next()) {
    if (name == p->name()) return p;
  }
  return nullptr;
}

size_t NumCrashPoints() {
  const CrashPoint* last = LastCrashPoint();
  return last == nullptr ? 0 : last->index() + 1;
}

}  // namespace

std::vector<std::string> CrashPointNames(absl::string_view prefix) {
  std::vector<std::string> names;
  for (const CrashPoint* p = LastCrashPoint(); p != nullptr; p = p->next()) {
    if (absl::StartsWith(p->name(), prefix)) names.push_back(p->name());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void PassingCounts::Unmap::operator()(std::atomic<uint64_t>* words) const {
  munmap(words, size_bytes);
}

PassingCounts::PassingCounts() : size_(NumCrashPoints()) {
  const size_t size_bytes = (1 + size_) * sizeof(std::atomic<uint64_t>);
  void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TENON_CHECK(memory != MAP_FAILED, "no memory for PassingCounts");
  auto* words = static_cast<std::atomic<uint64_t>*>(memory);
  for (size_t i = 0; i < 1 + size_; ++i) new (words + i) std::atomic<uint64_t>;
  words_ = {words, Unmap{size_bytes}};
}

uint64_t PassingCounts::of(absl::string_view point) const {
  const CrashPoint* found = Find(point);
  if (found == nullptr || found->index() >= size_) return 0;
  return words_[1 + found->index()].load();
}

std::map<std::string, uint64_t> PassingCounts::Passed() const {
  std::map<std::string, uint64_t> passed;
  for (const CrashPoint* p = LastCrashPoint(); p != nullptr; p = p->next()) {
    if (p->index() >= size_) continue;
    const uint64_t count = words_[1 + p->index()].load();
    if (count > 0) passed[p->name()] = count;
  }
  return passed;
}

pid_t PassingCounts::fired_by() const {
  return static_cast<pid_t>(words_[0].load());
}

void PassingCounts::Reset() {
  for (size_t i = 0; i < 1 + size_; ++i) words_[i].store(0);
}

CrashWatch::CrashWatch(PassingCounts& counts, std::vector<CrashOrder> orders)
    : counts_(counts), orders_(std::move(orders)) {
  for (const CrashOrder& order : orders_) {
    const CrashPoint* point = Find(order.point);
    if (point == nullptr) {
      Abort(absl::StrCat("there is no crash point '", order.point,
                         "' in this program"));
    }
    indices_.push_back(point->index());
  }
  former_ = active.exchange(this, std::memory_order_release);
  former_hook_ = SetCrashPointHook(&CrashWatch::Hook);
}

CrashWatch::~CrashWatch() {
  SetCrashPointHook(former_hook_);
  active.store(former_);
  // Another thread may be at a point, such as one that frees memory for others.
  // A child that was forked meanwhile has its number, but not the thread.
  const absl::Time deadline = absl::Now() + absl::Seconds(1);
  while (in_hook.load() > 0 && absl::Now() < deadline) {
    absl::SleepFor(absl::Microseconds(50));
  }
}

void CrashWatch::Hook(const CrashPoint& point) {
  in_hook.fetch_add(1);
  const absl::Cleanup leave = [] { in_hook.fetch_sub(1); };
  CrashWatch* watch = active.load();
  // A library that was loaded after the counts were made is not counted.
  if (watch == nullptr || point.index() >= watch->counts_.size_) return;
  const uint64_t passing =
      1 + watch->counts_.words_[1 + point.index()].fetch_add(1);
  for (size_t i = 0; i < watch->orders_.size(); ++i) {
    const CrashOrder& order = watch->orders_[i];
    if (watch->indices_[i] == point.index() && order.passing == passing) {
      watch->Act(order);
    }
  }
}

void CrashWatch::Act(const CrashOrder& order) {
  const int saved_errno = errno;
  if (order.action == CrashAction::kCall) {
    order.call();
  } else {
    counts_.words_[0].store(static_cast<uint64_t>(getpid()));
    // Sent to this thread, which receives it before it returns from the kernel.
    raise(order.action == CrashAction::kKill ? SIGKILL : SIGSTOP);
  }
  errno = saved_errno;
}

}  // namespace tenon
