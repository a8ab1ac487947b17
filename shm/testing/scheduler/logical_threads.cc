// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/logical_threads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/check.h"

namespace tenon {
namespace {

constexpr size_t kStackBytes = 256 << 10;

}  // namespace

void LogicalThreads::Reset(ScheduleRandom* random) {
  random_ = random;
  // The callables may refer to objects of the body.
  for (int t = 1; t < count_; ++t) threads_[t] = {};
  count_ = 1;
  current_ = kBody;
  has_run_ = false;
  anyone_killed_ = false;
  runnable_ = 0;
  steps_ = 0;
  failure_.clear();
}

int LogicalThreads::Add(const char* name, std::function<void()> run,
                        bool killable) {
  TENON_CHECK(!has_run_, "a thread is added after Run()");
  TENON_CHECK(count_ < kMaxThreads, "too many logical threads");
  Thread& thread = threads_[count_];
  thread.name = name;
  thread.run = std::move(run);
  thread.killable = killable;
  return count_++;
}

void LogicalThreads::Run() {
  TENON_CHECK(!has_run_, "Run() twice in one schedule");
  has_run_ = true;
  if (count_ == 1 || !failure_.empty()) return;
  if (fibers_[kBody] == nullptr) fibers_[kBody] = std::make_unique<Fiber>();
  for (int t = 1; t < count_; ++t) {
    if (fibers_[t] == nullptr)
      fibers_[t] = std::make_unique<Fiber>(kStackBytes);
    if ((parked_ >> t & 1) == 0) {
      fibers_[t]->Prepare(&LogicalThreads::Main, this);
    }
    parked_ &= ~(1u << t);
    runnable_ |= 1u << t;
  }
  strategy_.Begin({options_.strategy, options_.change_points, expected_steps_},
                  random_);
  DrawKills();
  running_ = true;
  SwitchTo(strategy_.Pick(runnable_, kBody));
  running_ = false;
  current_ = kBody;
}

void LogicalThreads::Pause() {
  if (!running_) return;
  strategy_.Waits(current_);
  Switch();
}

// A thread that must die here can still be picked: it dies blocked.
void LogicalThreads::Block(const void* event, int or_end_of) {
  TENON_CHECK(running_, "the body cannot wait");
  Thread& thread = threads_[current_];
  thread.waits_for = event;
  thread.or_end_of = or_end_of;
  if (thread.operations != thread.dies_at) runnable_ &= ~(1u << current_);
  const int next = PickNextOrBody();
  if (next == kBody) Stop();
  if (next != current_) SwitchTo(next);
  thread.waits_for = nullptr;
  CountOperation();
}

void LogicalThreads::Wake(const void* event) {
  strategy_.Changed();
  for (int t = 1; t < count_; ++t) {
    if (threads_[t].waits_for == event) runnable_ |= 1u << t;
  }
}

void LogicalThreads::NoteFailure(std::string what) {
  if (failure_.empty()) failure_ = std::move(what);
}

void LogicalThreads::Stop() {
  if (running_) fibers_[current_]->SwitchForGood(*fibers_[kBody]);
}

std::vector<std::string> LogicalThreads::names() const {
  std::vector<std::string> names;
  for (int t = 0; t < count_; ++t) names.push_back(threads_[t].name);
  return names;
}

void LogicalThreads::ExpectAsLast() {
  expected_steps_ = steps_;
  for (int t = 1; t < count_; ++t) {
    expected_operations_[t] = threads_[t].operations;
  }
}

// A fiber runs threads of successive schedules.
void LogicalThreads::Main(void* self) {
  LogicalThreads& threads = *static_cast<LogicalThreads*>(self);
  for (;;) {
    Thread& thread = threads.threads_[threads.current_];
    if (thread.dies_at == 0) threads.Die();
    thread.run();
    threads.End(/*killed=*/false);
    threads.parked_ |= 1u << threads.current_;
    threads.SwitchTo(threads.PickNextOrBody());
  }
}

void LogicalThreads::Switch() {
  if (++steps_ > options_.max_steps) {
    NoteFailure(absl::StrCat("livelock: not over after ", options_.max_steps,
                             " steps"));
    Stop();
  }
  const int next = strategy_.Pick(runnable_, current_);
  if (next != current_) SwitchTo(next);
  CountOperation();
}

void LogicalThreads::SwitchTo(int thread) {
  Fiber& from = *fibers_[current_];
  current_ = thread;
  from.SwitchTo(*fibers_[thread]);
}

void LogicalThreads::CountOperation() {
  Thread& thread = threads_[current_];
  if (thread.operations++ == thread.dies_at) Die();
}

void LogicalThreads::Die() {
  End(/*killed=*/true);
  Fiber& from = *fibers_[current_];
  current_ = PickNextOrBody();
  from.SwitchForGood(*fibers_[current_]);
}

void LogicalThreads::End(bool killed) {
  Thread& thread = threads_[current_];
  thread.ended = true;
  thread.killed = killed;
  anyone_killed_ |= killed;
  trace_->Add(
      {current_, killed ? ScheduleVerb::kKilled : ScheduleVerb::kEnded});
  strategy_.Changed();
  runnable_ &= ~(1u << current_);
  for (int t = 1; t < count_; ++t) {
    if (threads_[t].waits_for != nullptr && threads_[t].or_end_of == current_) {
      runnable_ |= 1u << t;
    }
  }
}

// The body, if no thread can run: all have ended, or it is a deadlock.
int LogicalThreads::PickNextOrBody() {
  if (runnable_ != 0) return strategy_.Pick(runnable_, current_);
  if (!NamesOfBlocked().empty()) {
    NoteFailure("deadlock: waiting for ever:" + NamesOfBlocked());
  }
  return kBody;
}

std::string LogicalThreads::NamesOfBlocked() const {
  std::string names;
  for (int t = 1; t < count_; ++t) {
    if (!threads_[t].ended) absl::StrAppend(&names, " ", threads_[t].name);
  }
  return names;
}

void LogicalThreads::DrawKills() {
  for (int kill = 0; kill < options_.max_kills; ++kill) {
    const int t = 1 + random_->Below(count_ - 1);
    if (!threads_[t].killable || random_->Chance(64)) continue;
    const uint32_t at = random_->Below(expected_operations_[t] * 5 / 4 + 2);
    threads_[t].dies_at = std::min(threads_[t].dies_at, at);
  }
}

}  // namespace tenon
