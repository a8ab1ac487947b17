// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of the text of a LoaderState. What is accepted is what ToString()
// writes, so no two texts are one state; its numbers are in their limits. Each
// line is a text; Combine() of the states of all lines is an error or one state
// of the same order.
//
// As a test it replays testdata/loader_state_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with loader_state.cc.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/loader_state.h"
#include "tenon/shm/base/check.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon::loader {
namespace {

void CheckLimits(const LoaderState::Contents& state) {
  TENON_CHECK(state.epoch >= 0 && !state.positions.empty() &&
                  state.positions.size() <= kMaxStatePositions,
              "the epoch or the number of positions is out of range");
  for (const int64_t position : state.positions) {
    TENON_CHECK(position >= 0 && position <= kMaxStatePosition,
                "a position is out of range");
  }
  int64_t after = 0;
  for (const LoaderState::Range& range : state.missing) {
    TENON_CHECK(after <= range.first && range.first < range.end &&
                    range.end <= state.positions[0],
                "missing positions are not before the position, in order");
    after = range.end;
  }
  TENON_CHECK(
      state.rank >= -1 && state.rank < state.world_size && state.world_size > 0,
      "the rank is not in its world");
}

}  // namespace
}  // namespace tenon::loader

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tenon::loader::LoaderState;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  std::vector<LoaderState> states;
  for (const absl::string_view text : absl::StrSplit(bytes, '\n')) {
    absl::StatusOr<LoaderState> state = LoaderState::Parse(text);
    if (!state.ok()) {
      TENON_CHECK(absl::IsInvalidArgument(state.status()) &&
                      state.status().message().size() < 400,
                  "not kInvalidArgument, or a message of any length");
      continue;
    }
    TENON_CHECK(state->ToString() == text, "what was read is not written");
    tenon::loader::CheckLimits(state->contents());
    states.push_back(*std::move(state));
  }
  const absl::StatusOr<LoaderState> combined = LoaderState::Combine(states);
  TENON_CHECK(combined.ok() || combined.status().message().size() < 500,
              "a message of any length");
  if (!combined.ok()) return 0;
  TENON_CHECK(combined->contents().rank == -1 &&
                  combined->contents().order == states[0].contents().order,
              "the states combined are not one of the same order");
  const absl::StatusOr<LoaderState> again =
      LoaderState::Parse(combined->ToString());
  TENON_CHECK(again.ok() && *again == *combined,
              "a combined state is not read again");
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon::loader {
namespace {

TEST(LoaderStateFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput, "loader/testdata/loader_state_fuzz",
               {.mutations = 200'000});
}

}  // namespace
}  // namespace tenon::loader

#endif  // TENON_FUZZ
