// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/litmus.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"

namespace tenon {
namespace {

constexpr size_t kMaxWords = 4;
constexpr size_t kMaxFound = 16;

using Words = std::array<SharedWord<uint64_t>, kMaxWords>;

bool Finds(const LitmusOp& op) {
  return op.kind == LitmusOp::Kind::kRead || op.kind == LitmusOp::Kind::kAdd;
}

void RunThread(const LitmusThread& thread, Words& words, uint64_t* found) {
  for (const LitmusOp& op : thread) {
    SharedWord<uint64_t>& word = words[op.word];
    switch (op.kind) {
      case LitmusOp::Kind::kRead:
        *found++ = SimAtomics::Load(word, op.order);
        break;
      case LitmusOp::Kind::kWrite:
        SimAtomics::Store(word, op.value, op.order);
        break;
      case LitmusOp::Kind::kAdd:
        *found++ = SimAtomics::FetchAdd(word, op.value, op.order);
        break;
      case LitmusOp::Kind::kFence:
        SimAtomics::Fence(op.order);
        break;
    }
  }
}

// The outcome of one schedule, in a form that is quick to compare.
struct Raw {
  std::array<uint64_t, kMaxFound + kMaxWords> values = {};
  auto operator<=>(const Raw&) const = default;
};

const char* Name(std::memory_order order) {
  switch (order) {
    case std::memory_order_relaxed:
      return "rlx";
    case std::memory_order_consume:
      return "con";
    case std::memory_order_acquire:
      return "acq";
    case std::memory_order_release:
      return "rel";
    case std::memory_order_acq_rel:
      return "acq_rel";
    case std::memory_order_seq_cst:
      return "sc";
  }
  return "?";
}

std::string ToString(const LitmusOp& op) {
  switch (op.kind) {
    case LitmusOp::Kind::kRead:
      return absl::StrCat("R", op.word, ".", Name(op.order));
    case LitmusOp::Kind::kWrite:
      return absl::StrCat("W", op.word, "=", op.value, ".", Name(op.order));
    case LitmusOp::Kind::kAdd:
      return absl::StrCat("A", op.word, "+", op.value, ".", Name(op.order));
    case LitmusOp::Kind::kFence:
      return absl::StrCat("F.", Name(op.order));
  }
  return "?";
}

}  // namespace

int CountWords(const LitmusProgram& program) {
  int words = 0;
  for (const LitmusThread& thread : program) {
    for (const LitmusOp& op : thread) {
      if (op.kind != LitmusOp::Kind::kFence) {
        words = std::max(words, op.word + 1);
      }
    }
  }
  return words;
}

LitmusOutcome MakeOutcome(const std::vector<uint64_t>& found,
                          const std::vector<uint64_t>& at_end) {
  return absl::StrCat(absl::StrJoin(found, " "), " | ",
                      absl::StrJoin(at_end, " "));
}

std::map<LitmusOutcome, uint64_t> RunLitmus(const LitmusProgram& program,
                                            uint64_t schedules) {
  const size_t words_used = CountWords(program);
  size_t found_used = 0;
  std::vector<size_t> first_found;  // By thread.
  for (const LitmusThread& thread : program) {
    first_found.push_back(found_used);
    found_used += std::count_if(thread.begin(), thread.end(), Finds);
  }
  TENON_CHECK(words_used <= kMaxWords && found_used <= kMaxFound,
              "too large a litmus program");

  std::map<Raw, uint64_t> seen;
  uint64_t schedule = 0;
  const auto body = [&](Schedule& s) {
    Words words;
    for (size_t w = 0; w < words_used; ++w) *words[w].address() = 0;
    Raw raw;
    for (size_t t = 0; t < program.size(); ++t) {
      s.AddThread("thread", [&, t] {
        RunThread(program[t], words, raw.values.data() + first_found[t]);
      });
    }
    s.Run();
    for (size_t w = 0; w < words_used; ++w) {
      raw.values[kMaxFound + w] =
          SimAtomics::Load(words[w], std::memory_order_relaxed);
    }
    // The first call measures; that is schedule 0, and does not count.
    if (schedule++ > 0) seen.emplace(raw, schedule - 1);
  };
  const ExploreResult result = Explore({.schedules = schedules}, body);
  TENON_CHECK(result.ok, result.report);

  std::map<LitmusOutcome, uint64_t> outcomes;
  for (const auto& [raw, first] : seen) {
    const uint64_t* values = raw.values.data();
    outcomes[MakeOutcome(
        {values, values + found_used},
        {values + kMaxFound, values + kMaxFound + words_used})] = first;
  }
  return outcomes;
}

std::string ToString(const LitmusProgram& program) {
  return absl::StrJoin(
      program, " || ", [](std::string* out, const LitmusThread& thread) {
        absl::StrAppend(
            out, absl::StrJoin(thread, " ",
                               [](std::string* text, const LitmusOp& op) {
                                 absl::StrAppend(text, ToString(op));
                               }));
      });
}

}  // namespace tenon
