// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The outcomes of well-known litmus programs under C++20, determined by hand,
// against those of the scheduler: the critical outcome is seen soon if it is
// allowed and never if it is not, and the others are exactly those of the
// axioms.

#include "tenon/shm/testing/scheduler/litmus.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/memory_axioms.h"

namespace tenon {
namespace {

constexpr auto rlx = std::memory_order_relaxed;
constexpr auto acq = std::memory_order_acquire;
constexpr auto rel = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto sc = std::memory_order_seq_cst;
constexpr int x = 0;
constexpr int y = 1;

// An allowed outcome is seen within this many schedules.
constexpr uint64_t kSoon = 20000;

struct LitmusCase {
  std::string name;
  LitmusProgram program;
  LitmusOutcome telling;
  bool allowed;
};

void PrintTo(const LitmusCase& c, std::ostream* out) {
  *out << c.name << ": " << ToString(c.program);
}

// A program in its three flavours.
struct Allowed {
  bool relaxed;
  bool acquire_release;
  bool sequential;
};
using MakeProgram = LitmusProgram (*)(std::memory_order load,
                                      std::memory_order store);

void AddFlavours(const std::string& name, MakeProgram make,
                 const LitmusOutcome& telling, Allowed allowed,
                 std::vector<LitmusCase>& cases) {
  cases.push_back(
      {name + "_relaxed", make(rlx, rlx), telling, allowed.relaxed});
  cases.push_back({name + "_acquire_release", make(acq, rel), telling,
                   allowed.acquire_release});
  cases.push_back(
      {name + "_sequential", make(sc, sc), telling, allowed.sequential});
}

LitmusProgram StoreBuffering(std::memory_order load, std::memory_order store) {
  return {{Write(x, 1, store), Read(y, load)},
          {Write(y, 1, store), Read(x, load)}};
}
LitmusProgram MessagePassing(std::memory_order load, std::memory_order store) {
  return {{Write(x, 1, store), Write(y, 1, store)},
          {Read(y, load), Read(x, load)}};
}
LitmusProgram LoadBuffering(std::memory_order load, std::memory_order store) {
  return {{Read(y, load), Write(x, 1, store)},
          {Read(x, load), Write(y, 1, store)}};
}
LitmusProgram Iriw(std::memory_order load, std::memory_order store) {
  return {{Write(x, 1, store)},
          {Write(y, 1, store)},
          {Read(x, load), Read(y, load)},
          {Read(y, load), Read(x, load)}};
}
LitmusProgram CoRR(std::memory_order load, std::memory_order store) {
  return {{Write(x, 1, store), Write(x, 2, store)},
          {Read(x, load), Read(x, load)}};
}
LitmusProgram CoRR2(std::memory_order load, std::memory_order store) {
  return {{Write(x, 1, store)},
          {Write(x, 2, store)},
          {Read(x, load), Read(x, load)},
          {Read(x, load), Read(x, load)}};
}
LitmusProgram TwoPlusTwoW(std::memory_order, std::memory_order store) {
  return {{Write(x, 1, store), Write(y, 2, store)},
          {Write(y, 1, store), Write(x, 2, store)}};
}
LitmusProgram Wrc(std::memory_order load, std::memory_order store) {
  return {{Write(x, 1, store)},
          {Read(x, load), Write(y, 1, store)},
          {Read(y, load), Read(x, load)}};
}
LitmusProgram R(std::memory_order load, std::memory_order store) {
  return {{Write(x, 1, store), Write(y, 1, store)},
          {Write(y, 2, store), Read(x, load)}};
}
LitmusProgram S(std::memory_order load, std::memory_order store) {
  return {{Write(x, 2, store), Write(y, 1, store)},
          {Read(y, load), Write(x, 1, store)}};
}

std::vector<LitmusCase> Classics() {
  std::vector<LitmusCase> cases;
  AddFlavours("SB", StoreBuffering, "0 0 | 1 1", {true, true, false}, cases);
  AddFlavours("MP", MessagePassing, "1 0 | 1 1", {true, false, false}, cases);
  // C++20 allows it relaxed; this model never shows it.
  AddFlavours("LB", LoadBuffering, "1 1 | 1 1", {false, false, false}, cases);
  AddFlavours("IRIW", Iriw, "1 0 1 0 | 1 1", {true, true, false}, cases);
  AddFlavours("CoRR", CoRR, "2 1 | 2", {false, false, false}, cases);
  AddFlavours("CoRR2", CoRR2, "1 2 2 1 | 2", {false, false, false}, cases);
  AddFlavours("2W2W", TwoPlusTwoW, " | 1 1", {true, true, false}, cases);
  AddFlavours("WRC", Wrc, "1 1 0 | 1 1", {true, false, false}, cases);
  AddFlavours("R", R, "0 | 1 2", {true, true, false}, cases);
  AddFlavours("S", S, "1 | 2 1", {true, false, false}, cases);
  return cases;
}

std::vector<LitmusCase> Mixtures() {
  return {
      // A seq_cst store does not order a load that is not.
      {"SB_stores_sequential", StoreBuffering(acq, sc), "0 0 | 1 1", true},
      {"SB_loads_sequential", StoreBuffering(sc, rel), "0 0 | 1 1", true},
      {"SB_one_store_weaker",
       {{Write(x, 1, sc), Read(y, sc)}, {Write(y, 1, rel), Read(x, sc)}},
       "0 0 | 1 1",
       true},
      {"SB_by_fences",
       {{Write(x, 1, rlx), Fence(sc), Read(y, rlx)},
        {Write(y, 1, rlx), Fence(sc), Read(x, rlx)}},
       "0 0 | 1 1",
       false},
      {"SB_by_weak_fences",
       {{Write(x, 1, rlx), Fence(acq_rel), Read(y, rlx)},
        {Write(y, 1, rlx), Fence(acq_rel), Read(x, rlx)}},
       "0 0 | 1 1",
       true},
      {"SB_fence_and_accesses",
       {{Write(x, 1, rlx), Fence(sc), Read(y, rlx)},
        {Write(y, 1, sc), Read(x, sc)}},
       "0 0 | 1 1",
       false},
      {"SB_by_weak_adds",
       {{Add(x, 1, acq_rel), Read(y, acq)}, {Add(y, 1, acq_rel), Read(x, acq)}},
       "0 0 0 0 | 1 1",
       true},
      {"SB_by_adds",
       {{Add(x, 1, sc), Read(y, sc)}, {Add(y, 1, sc), Read(x, sc)}},
       "0 0 0 0 | 1 1",
       false},
      {"MP_load_relaxed", MessagePassing(rlx, rel), "1 0 | 1 1", true},
      {"MP_store_relaxed", MessagePassing(acq, rlx), "1 0 | 1 1", true},
      {"MP_by_fences",
       {{Write(x, 1, rlx), Fence(rel), Write(y, 1, rlx)},
        {Read(y, rlx), Fence(acq), Read(x, rlx)}},
       "1 0 | 1 1",
       false},
      {"MP_through_an_add",
       {{Write(x, 1, rlx), Write(y, 1, rel)},
        {Add(y, 10, rlx)},
        {Read(y, acq), Read(x, rlx)}},
       "1 11 0 | 1 11",
       false},
      // C++20 took stores of the same thread out of release sequences.
      {"MP_through_a_store",
       {{Write(x, 1, rlx), Write(y, 1, rel), Write(y, 2, rlx)},
        {Read(y, acq), Read(x, rlx)}},
       "2 0 | 1 2",
       true},
      {"IRIW_loads_sequential", Iriw(sc, rel), "1 0 1 0 | 1 1", false},
      {"IRIW_stores_sequential", Iriw(acq, sc), "1 0 1 0 | 1 1", true},
      {"IRIW_by_fences",
       {{Write(x, 1, rlx)},
        {Write(y, 1, rlx)},
        {Read(x, rlx), Fence(sc), Read(y, rlx)},
        {Read(y, rlx), Fence(sc), Read(x, rlx)}},
       "1 0 1 0 | 1 1",
       false},
      {"adds_are_atomic",
       {{Add(x, 1, rlx)}, {Add(x, 1, rlx)}},
       "0 0 | 1",
       false},
      {"add_before_a_store_that_ran",
       {{Write(x, 5, rlx), Write(y, 1, rlx)}, {Read(y, rlx), Add(x, 1, rlx)}},
       "1 0 | 5 1",
       true},
      // Allowed by C++20, and never shown: seq_cst against happens-before.
      {"Z6_U",
       {{Write(x, 1, sc), Write(y, 1, rel)},
        {Add(y, 1, sc), Read(y, rlx)},
        {Write(y, 3, sc), Read(x, sc)}},
       "1 3 0 | 1 3",
       false},
  };
}

class LitmusTest : public testing::TestWithParam<LitmusCase> {};

TEST_P(LitmusTest, ShowsWhatIsAllowedAndNothingElse) {
  const LitmusCase& c = GetParam();
  const auto seen = RunLitmus(c.program, ScheduleCount(1'000'000));
  std::set<LitmusOutcome> outcomes;
  for (const auto& [outcome, first] : seen) {
    outcomes.insert(outcome);
    EXPECT_LE(first, kSoon) << outcome;
  }
  EXPECT_THAT(outcomes, testing::ContainerEq(AllowedOutcomes(c.program)));
  EXPECT_EQ(outcomes.count(c.telling) > 0, c.allowed) << c.telling;
}

std::string NameOf(const testing::TestParamInfo<LitmusCase>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(Classics, LitmusTest, testing::ValuesIn(Classics()),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Mixtures, LitmusTest, testing::ValuesIn(Mixtures()),
                         NameOf);

}  // namespace
}  // namespace tenon
