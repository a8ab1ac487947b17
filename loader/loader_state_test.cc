// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The text of a state, and states of several ranks.

#include "tenon/loader/loader_state.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

LoaderState Full() {
  return LoaderState({.epoch = 3,
                      .positions = {40},
                      .missing = {{4, 8}, {20, 22}},
                      .order = {{"dataset", "Photos"}, {"seed", "7"}}});
}

LoaderState OfRank(int rank, int world_size, std::vector<int64_t> positions,
                   int64_t epoch = 3) {
  return LoaderState({.epoch = epoch,
                      .positions = std::move(positions),
                      .rank = rank,
                      .world_size = world_size,
                      .order = {{"dataset", "Lines"}}});
}

TEST(LoaderStateTest, IsALineOfText) {
  const std::string text = Full().ToString();
  EXPECT_EQ(text,
            "tenon-loader-state version=1 epoch=3 position=40 "
            "missing=4-8,20-22 rank=all/1 dataset=Photos seed=7");
  EXPECT_THAT(LoaderState::Parse(text), IsOkAndHolds(Full()));
  const LoaderState rank = OfRank(2, 4, {5, 0, 9});
  EXPECT_EQ(rank.ToString(),
            "tenon-loader-state version=1 epoch=3 position=5,0,9 "
            "missing=none rank=2/4 dataset=Lines");
  EXPECT_THAT(LoaderState::Parse(rank.ToString()), IsOkAndHolds(rank));
}

TEST(LoaderStateTest, AnotherVersionIsAnErrorThatNamesBoth) {
  const std::string text =
      absl::StrReplaceAll(Full().ToString(), {{"version=1", "version=2"}});
  EXPECT_THAT(LoaderState::Parse(text),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("a state of version '2'"),
                             HasSubstr("reads version 1"))));
}

TEST(LoaderStateTest, HostileTextsAreErrors) {
  const std::string good = Full().ToString();
  const auto with = [&](const char* what, const std::string& instead) {
    return absl::StrReplaceAll(good, {{what, instead}});
  };
  std::string many = "0";
  for (size_t i = 0; i < kMaxStatePositions; ++i) many += ",0";
  const std::vector<std::string> texts = {
      "",
      " ",
      "tenon-loader-state",
      "tenon-loader-state version=1",
      "tenon-loader-state version=1 epoch=3 position=1 missing=none rank=all/1",
      good + "\n",
      good + " ",
      " " + good,
      good.substr(0, good.size() - 2),
      with("epoch=3", "epoch=-3"),
      with("epoch=3", "epoch=+3"),
      with("epoch=3", "epoch=03"),
      with("epoch=3", "epoch="),
      with("epoch=3", "epoch=0x3"),
      with("epoch=3", "epoch=3.5"),
      with("epoch=3", "epoch=9223372036854775808"),
      with("epoch=3", "epoch=" + std::string(5000, '9')),
      with("epoch=3", "step=3"),
      with("epoch=3 ", ""),
      with("version=1", "version=01"),
      with("version=1", "version=" + std::string(1000, '\n')),
      with("position=40", "position=-1"),
      with("position=40", "position=1152921504606846977"),
      with("position=40", "position=40,"),
      with("position=40", "position=" + many),
      with("position=40", "position=21"),  // Before what is missing.
      with("missing=4-8", "missing=4"),
      with("missing=4-8", "missing=4-4"),
      with("missing=4-8", "missing=8-4"),
      with("missing=4-8", "missing=4-8-9"),
      with("missing=4-8", "missing=30-39"),  // After the next one.
      with("missing=4-8", "missing=-4-8"),
      with("missing=4-8,20-22", ""),
      with("rank=all/1", "rank=1"),
      with("rank=all/1", "rank=1/1"),
      with("rank=all/1", "rank=all/0"),
      with("rank=all/1", "rank=-1/1"),
      with("rank=all/1", "rank=0/2147483648"),
      with("seed=7", "seed"),
      with("seed=7", "seed="),
      with("seed=7", "=7"),
      with("seed=7", std::string("seed=\0", 6)),
      with("seed=7", "seed=\x80"),
      with("seed=7",
           "a=1 b=2 c=3 d=4 e=5 f=6 g=7 h=8 i=9 j=1 k=1 l=1 m=1 n=1 "
           "o=1 p=1"),
      good + std::string(5 << 20, 'x'),
  };
  for (const std::string& text : texts) {
    const auto parsed = LoaderState::Parse(text);
    EXPECT_THAT(parsed, StatusIs(StatusCode::kInvalidArgument,
                                 HasSubstr("LoaderState::Parse(): ")))
        << text.substr(0, 200);
    // No error repeats a text of any length.
    EXPECT_LT(parsed.status().message().size(), 400u);
  }
}

TEST(LoaderStateTest, TheLongestTextsAreRead) {
  LoaderState::Contents contents = Full().contents();
  contents.missing.clear();
  contents.positions.assign(kMaxStatePositions, kMaxStatePosition);
  const LoaderState of_ranks(contents);
  EXPECT_THAT(LoaderState::Parse(of_ranks.ToString()), IsOkAndHolds(of_ranks));
  contents.positions = {kMaxStatePosition};
  for (size_t i = kMaxStatePositions; i > 0; --i) {
    const int64_t end = kMaxStatePosition - 2 * static_cast<int64_t>(i);
    contents.missing.push_back({end - 1, end});
  }
  const LoaderState late(contents);
  EXPECT_THAT(LoaderState::Parse(late.ToString()), IsOkAndHolds(late));
}

TEST(LoaderStateTest, ErrorsRepeatNoTextOfAnyLength) {
  LoaderState::Contents long_name = Full().contents();
  long_name.order[0].second = std::string(1 << 20, 'x');
  LoaderState::Contents many = Full().contents();
  many.positions.assign(kMaxStatePositions, 40);
  for (const LoaderState::Contents& other : {long_name, many}) {
    const absl::Status refused =
        LoaderState::Combine({Full(), LoaderState(other)}).status();
    EXPECT_THAT(refused, StatusIs(StatusCode::kInvalidArgument));
    EXPECT_LT(refused.message().size(), 500u);
  }
}

TEST(LoaderStateTest, StatesOfRanksOfAMapStyleDatasetAreEqual) {
  EXPECT_THAT(LoaderState::Combine({Full(), Full(), Full()}),
              IsOkAndHolds(Full()));
  LoaderState::Contents other = Full().contents();
  other.positions = {48};
  EXPECT_THAT(LoaderState::Combine({Full(), LoaderState(other)}),
              StatusIs(StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("state 0 is at position 40"),
                             HasSubstr("state 1 at 48"))));
  other = Full().contents();
  other.epoch = 4;
  EXPECT_THAT(LoaderState::Combine({Full(), LoaderState(other)}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("state 0 is of epoch 3, state 1 of epoch 4")));
  other = Full().contents();
  other.order[1].second = "8";
  EXPECT_THAT(LoaderState::Combine({Full(), LoaderState(other)}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("state 0 is of seed 7, state 1 of seed 8")));
  EXPECT_THAT(LoaderState::Combine({}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("no states")));
}

TEST(LoaderStateTest, StatesOfRanksOfStreamsAreOnePositionEach) {
  TENON_ASSERT_OK_AND_ASSIGN(
      LoaderState state,
      LoaderState::Combine({OfRank(1, 2, {11}), OfRank(0, 2, {8})}));
  EXPECT_THAT(state.contents().positions, ElementsAre(8, 11));
  EXPECT_EQ(state.contents().rank, -1);
  EXPECT_EQ(state.contents().world_size, 1);

  TENON_ASSERT_OK_AND_ASSIGN(
      state, LoaderState::Combine({OfRank(0, 2, {9}), OfRank(1, 2, {9})}));
  EXPECT_THAT(state.contents().positions, ElementsAre(9));

  // Of ranks that were resumed, or have batches in any order.
  TENON_ASSERT_OK_AND_ASSIGN(
      state,
      LoaderState::Combine({OfRank(0, 2, {1, 2, 3}), OfRank(1, 2, {7})}));
  EXPECT_THAT(state.contents().positions, ElementsAre(1, 7, 3, 7, 2, 7));

  // A rank that has received the end of its lanes.
  TENON_ASSERT_OK_AND_ASSIGN(
      state, LoaderState::Combine({OfRank(0, 2, {0}, 4), OfRank(1, 2, {9})}));
  EXPECT_EQ(state.epoch(), 3);
  EXPECT_THAT(state.contents().positions, ElementsAre(kMaxStatePosition, 9));
}

TEST(LoaderStateTest, RanksThatAreMissingOrThereTwiceAreErrors) {
  const auto refused = [](const std::string& why) {
    return StatusIs(StatusCode::kInvalidArgument, HasSubstr(why));
  };
  EXPECT_THAT(LoaderState::Combine({OfRank(0, 2, {8})}),
              refused("there are 1 states of 2 ranks; want one of each"));
  EXPECT_THAT(LoaderState::Combine({OfRank(0, 2, {8}), OfRank(0, 2, {8})}),
              refused("there are two states of rank 0"));
  EXPECT_THAT(LoaderState::Combine({OfRank(0, 2, {8}), OfRank(1, 3, {8})}),
              refused("state 1 is of rank 1 of 3, state 0 of 2 ranks"));
  EXPECT_THAT(LoaderState::Combine({OfRank(0, 2, {8}, 5), OfRank(1, 2, {8})}),
              refused("state 0 is of epoch 5, state 1 of epoch 3"));
  EXPECT_THAT(
      LoaderState::Combine({OfRank(0, 2, std::vector<int64_t>(65'521)),
                            OfRank(1, 2, std::vector<int64_t>(65'519))}),
      StatusIs(StatusCode::kResourceExhausted));
}

}  // namespace
}  // namespace tenon::loader
