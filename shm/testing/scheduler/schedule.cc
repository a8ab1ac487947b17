// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/schedule.h"

#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/check.h"

namespace tenon {
namespace {

thread_local Schedule* current_schedule = nullptr;

}  // namespace

Schedule::Schedule(const ScheduleOptions& options)
    : threads_(options, &trace_) {}

Schedule& Schedule::Current() {
  TENON_CHECK(current_schedule != nullptr,
              "an operation of the scheduler outside of Explore()");
  return *current_schedule;
}

void Schedule::Run() {
  for (int t = 1; t < threads_.count(); ++t) {
    memory_.Synchronise(LogicalThreads::kBody, t);
  }
  threads_.Run();
  for (int t = 1; t < threads_.count(); ++t) {
    memory_.Synchronise(t, LogicalThreads::kBody);
  }
}

bool Schedule::HasEnded(int thread) {
  TENON_CHECK(thread > LogicalThreads::kBody && thread < threads_.count(),
              "no such thread");
  threads_.Point();
  const bool ended = threads_.ended(thread);
  if (ended) memory_.Synchronise(thread, threads_.current());
  trace_.Add({threads_.current(),
              ended ? ScheduleVerb::kSawEnded : ScheduleVerb::kSawRunning,
              {threads_.name(thread)}});
  return ended;
}

void Schedule::Fail(const char* file, int line, const char* what) {
  threads_.NoteFailure(absl::StrCat(file, ":", line, ": ", what,
                                    " does not hold in ",
                                    threads_.name(threads_.current())));
  threads_.Stop();
}

void Schedule::Measure(Body body) {
  RunSeed(0, body, /*keep_trace=*/false);
  threads_.ExpectAsLast();
}

void Schedule::RunSeed(uint64_t seed, Body body, bool keep_trace) {
  TENON_CHECK(current_schedule == nullptr, "a schedule within a schedule");
  random_ = ScheduleRandom(seed);
  trace_.Reset(keep_trace);
  table_.Reset();
  memory_.Reset(&random_);
  threads_.Reset(&random_);
  current_schedule = this;
  body(*this);
  current_schedule = nullptr;
}

int Schedule::AddWord(uint64_t value, int bits) {
  const int word = memory_.AddWord(value, bits);
  labels_[word] = {"word", word};
  return word;
}

uint64_t Schedule::Load(int word, std::memory_order order) {
  TENON_CHECK(
      order != std::memory_order_release && order != std::memory_order_acq_rel,
      "a load cannot release");
  threads_.Point();
  const int thread = threads_.current();
  const auto result = memory_.Load(thread, word, order);
  trace_.Add({thread, ScheduleVerb::kLoad, labels_[word], result.value, 0,
              order, !result.newest});
  return result.value;
}

void Schedule::Store(int word, uint64_t value, std::memory_order order) {
  TENON_CHECK(order == std::memory_order_relaxed ||
                  order == std::memory_order_release ||
                  order == std::memory_order_seq_cst,
              "a store cannot acquire");
  threads_.Point();
  threads_.Changed();
  const int thread = threads_.current();
  memory_.Store(thread, word, value, order);
  trace_.Add({thread, ScheduleVerb::kStore, labels_[word], value, 0, order});
}

uint64_t Schedule::FetchAdd(int word, uint64_t value, std::memory_order order) {
  threads_.Point();
  threads_.Changed();
  const int thread = threads_.current();
  const auto result = memory_.FetchAdd(thread, word, value, order);
  trace_.Add({thread, ScheduleVerb::kAdd, labels_[word], result.stored,
              result.value, order, !result.newest});
  return result.value;
}

WeakMemory::Result Schedule::CompareExchange(int word, WeakMemory::Swap swap,
                                             std::memory_order order) {
  threads_.Point();
  const int thread = threads_.current();
  const auto result = memory_.CompareExchange(thread, word, swap, order);
  if (result.swapped) threads_.Changed();
  trace_.Add({thread,
              result.swapped ? ScheduleVerb::kSwap : ScheduleVerb::kSwapFailed,
              labels_[word], result.swapped ? result.stored : result.value,
              result.value, order, !result.newest});
  return result;
}

void Schedule::Fence(std::memory_order order) {
  threads_.Point();
  memory_.Fence(threads_.current(), order);
  trace_.Add({threads_.current(), ScheduleVerb::kFence, {}, 0, 0, order});
}

void Schedule::FenceAll() {
  threads_.Point();
  memory_.FenceAll(threads_.current());
  trace_.Add({threads_.current(), ScheduleVerb::kFenceAll});
}

void Schedule::Pause() {
  memory_.Pause(threads_.current());
  threads_.Pause();
  trace_.Add({threads_.current(), ScheduleVerb::kPause});
}

void Schedule::ReadPlain(WeakMemory::PlainAccesses& data,
                         const ScheduleEvent& event) {
  threads_.QuietPoint();
  trace_.Add(event);
  const int with = memory_.ReadPlain(event.thread, data);
  if (with >= 0) FailRace(event, with);
}

void Schedule::WritePlain(WeakMemory::PlainAccesses& data,
                          const ScheduleEvent& event) {
  threads_.QuietPoint();
  trace_.Add(event);
  const int with = memory_.WritePlain(event.thread, data);
  if (with >= 0) FailRace(event, with);
}

void Schedule::FailRace(const ScheduleEvent& event, int with) {
  threads_.NoteFailure(absl::StrCat(
      "data race: ", event.verb == ScheduleVerb::kRead ? "read" : "write",
      " of ", ToString(event.label), " by ", threads_.name(event.thread),
      " is not ordered with an access by ", threads_.name(with)));
  threads_.Stop();
}

}  // namespace tenon
