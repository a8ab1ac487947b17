// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/schedule_trace.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tenon {
namespace {

// Events shown at the start and at the end of a long trace.
constexpr size_t kShownAtStart = 100;
constexpr size_t kShownAtEnd = 400;

const char* Word(ScheduleVerb verb) {
  switch (verb) {
    case ScheduleVerb::kLoad:
      return "load";
    case ScheduleVerb::kStore:
      return "store";
    case ScheduleVerb::kAdd:
      return "add";
    case ScheduleVerb::kSwap:
      return "swap";
    case ScheduleVerb::kSwapFailed:
      return "swap failed";
    case ScheduleVerb::kFence:
      return "fence";
    case ScheduleVerb::kFenceAll:
      return "fence of all";
    case ScheduleVerb::kPause:
      return "pause";
    case ScheduleVerb::kRead:
      return "read";
    case ScheduleVerb::kWrite:
      return "write";
    case ScheduleVerb::kNotify:
      return "notify";
    case ScheduleVerb::kWait:
      return "wait";
    case ScheduleVerb::kWoken:
      return "woken";
    case ScheduleVerb::kSawRunning:
      return "saw running";
    case ScheduleVerb::kSawEnded:
      return "saw ended";
    case ScheduleVerb::kEnded:
      return "ended";
    case ScheduleVerb::kKilled:
      return "KILLED";
  }
  return "?";
}

const char* Word(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return "relaxed";
    case std::memory_order_consume:
      return "consume";
    case std::memory_order_acquire:
      return "acquire";
    case std::memory_order_release:
      return "release";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "seq_cst";
  }
  return "?";
}

// Large values are mostly packed fields.
std::string Value(uint64_t value) {
  return value > UINT16_MAX ? absl::StrCat("0x", absl::Hex(value))
                            : absl::StrCat(value);
}

std::string Details(const ScheduleEvent& event) {
  switch (event.verb) {
    case ScheduleVerb::kLoad:
    case ScheduleVerb::kStore:
    case ScheduleVerb::kSwapFailed:
      return absl::StrCat(Value(event.value), " ", Word(event.order),
                          event.stale ? ", stale" : "");
    case ScheduleVerb::kAdd:
    case ScheduleVerb::kSwap:
      return absl::StrCat(Value(event.before), " -> ", Value(event.value), " ",
                          Word(event.order), event.stale ? ", stale" : "");
    case ScheduleVerb::kFence:
      return Word(event.order);
    case ScheduleVerb::kRead:
    case ScheduleVerb::kWrite:
      return event.shown ? Value(event.value) : "";
    default:
      return "";
  }
}

}  // namespace

std::string ToString(const ScheduleLabel& label) {
  if (label.index < 0) return label.name;
  return absl::StrCat(label.name, "[", label.index, "]");
}

void ScheduleTrace::Reset(bool keep) {
  keep_ = keep;
  fingerprint_ = 0;
  events_.clear();
}

std::string ScheduleTrace::ToString(
    const std::vector<std::string>& names) const {
  std::string text;
  for (size_t i = 0; i < events_.size(); ++i) {
    if (i == kShownAtStart && events_.size() > kShownAtStart + kShownAtEnd) {
      i = events_.size() - kShownAtEnd;
      absl::StrAppend(&text, "   ... ", i - kShownAtStart, " omitted ...\n");
    }
    const ScheduleEvent& event = events_[i];
    std::string line = absl::StrFormat(
        "%5d %-12s %-11s %-12s %s", i + 1, names[event.thread],
        Word(event.verb), tenon::ToString(event.label), Details(event));
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace tenon
