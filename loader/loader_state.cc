// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/loader_state.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

using Order = std::vector<std::pair<std::string, std::string>>;

constexpr char kMagic[] = "tenon-loader-state";
constexpr int64_t kVersion = 1;
// Holds kMaxStatePositions ranges of missing positions, of 2 x 20 bytes each.
constexpr size_t kMaxText = 4 << 20;
constexpr size_t kMaxOrder = 16;

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("LoaderState::Parse(): ", what));
}

// `text` as it may be shown in an error: printable, and of a bounded length.
std::string Cut(absl::string_view text) {
  constexpr size_t kMost = 60;
  return absl::StrCat(absl::CHexEscape(text.substr(0, kMost)),
                      text.size() > kMost ? "..." : "");
}

std::string Shown(absl::string_view text) {
  return absl::StrCat("'", Cut(text), "'");
}

// A number as ToString() writes it: decimal, without sign or leading zeros.
absl::StatusOr<int64_t> Number(absl::string_view name, absl::string_view text,
                               int64_t most) {
  int64_t value = 0;
  const bool plain =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
        return absl::ascii_isdigit(static_cast<unsigned char>(c));
      });
  if (!plain || (text.size() > 1 && text[0] == '0') ||
      !absl::SimpleAtoi(text, &value) || value > most) {
    return Malformed(
        absl::StrCat(name, " is ", Shown(text), "; want 0 to ", most));
  }
  return value;
}

// "name=value" -> value.
absl::StatusOr<absl::string_view> ValueOf(absl::string_view name,
                                          absl::string_view word) {
  if (absl::ConsumePrefix(&word, name) && absl::ConsumePrefix(&word, "=")) {
    return word;
  }
  return Malformed(
      absl::StrCat("there is ", Shown(word), "; want ", name, "=..."));
}

absl::StatusOr<std::vector<int64_t>> Positions(absl::string_view text) {
  std::vector<int64_t> positions;
  for (const absl::string_view each : absl::StrSplit(text, ',')) {
    TENON_ASSIGN_OR_RETURN(const int64_t position,
                           Number("position", each, kMaxStatePosition));
    if (positions.size() == kMaxStatePositions) {
      return Malformed(
          absl::StrCat("more than ", kMaxStatePositions, " positions"));
    }
    positions.push_back(position);
  }
  return positions;
}

// Ranges, one after the other, before `position`.
absl::StatusOr<std::vector<LoaderState::Range>> Missing(absl::string_view text,
                                                        int64_t position) {
  std::vector<LoaderState::Range> missing;
  if (text == "none") return missing;
  int64_t after = 0;
  for (const absl::string_view each : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> ends =
        absl::StrSplit(each, absl::MaxSplits('-', 1));
    TENON_ASSIGN_OR_RETURN(const int64_t first,
                           Number("missing", ends.first, kMaxStatePosition));
    TENON_ASSIGN_OR_RETURN(const int64_t end,
                           Number("missing", ends.second, kMaxStatePosition));
    if (first < after || end <= first || end > position ||
        missing.size() == kMaxStatePositions) {
      return Malformed(absl::StrCat("missing has ", Shown(each),
                                    "; want ranges after one another, up "
                                    "to position ",
                                    position, ", ", kMaxStatePositions,
                                    " at most"));
    }
    missing.push_back({first, end});
    after = end;
  }
  return missing;
}

// "all/4" or "2/4".
absl::Status SetRank(absl::string_view text, LoaderState::Contents& contents) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits('/', 1));
  TENON_ASSIGN_OR_RETURN(
      const int64_t world_size,
      Number("rank", parts.second, std::numeric_limits<int>::max()));
  contents.world_size = static_cast<int>(world_size);
  contents.rank = -1;
  if (parts.first != "all") {
    TENON_ASSIGN_OR_RETURN(
        const int64_t rank,
        Number("rank", parts.first, std::numeric_limits<int>::max()));
    contents.rank = static_cast<int>(rank);
  }
  if (contents.world_size > 0 && contents.rank < contents.world_size) {
    return absl::OkStatus();
  }
  return Malformed(
      absl::StrCat("rank is ", Shown(text), "; want one below its world size"));
}

absl::Status Refused(absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("LoaderState::Combine(): ", why));
}

// Whether one of two ranks is at the beginning of the epoch after that of the
// other, so that it has received all of its lanes.
bool AreNeighbours(const LoaderState::Contents& one,
                   const LoaderState::Contents& other) {
  const LoaderState::Contents& later = one.epoch > other.epoch ? one : other;
  const LoaderState::Contents& earlier = one.epoch > other.epoch ? other : one;
  return later.rank >= 0 && later.epoch - 1 == earlier.epoch &&
         later.positions == std::vector<int64_t>{0};
}

std::string ToText(const LoaderState::Range& range) {
  return absl::StrCat(range.first, "-", range.end);
}

}  // namespace

absl::StatusOr<std::vector<int64_t>> PositionsByLane(
    size_t period, absl::FunctionRef<int64_t(size_t)> at) {
  if (period > kMaxStatePositions) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "LoaderState: workers and ranks, those before included, need ", period,
        " positions or more; want at most ", kMaxStatePositions));
  }
  std::vector<int64_t> positions(period);
  for (size_t i = 0; i < period; ++i) positions[i] = at(i);
  if (std::all_of(positions.begin(), positions.end(),
                  [&](int64_t p) { return p == positions[0]; })) {
    positions.resize(1);
  }
  return positions;
}

std::string OrderDifference(absl::string_view one, const Order& ones,
                            absl::string_view other, const Order& others) {
  for (size_t i = 0; i < std::max(ones.size(), others.size()); ++i) {
    const auto show = [&](const Order& order) {
      return i < order.size()
                 ? absl::StrCat(Cut(order[i].first), " ", Cut(order[i].second))
                 : std::string("no more");
    };
    if (i < ones.size() && i < others.size() && ones[i] == others[i]) continue;
    return absl::StrCat(one, " is of ", show(ones), ", ", other, " of ",
                        show(others));
  }
  return "";
}

std::string LoaderState::ToString() const {
  std::string text = absl::StrCat(
      kMagic, " version=", kVersion, " epoch=", contents_.epoch,
      " position=", absl::StrJoin(contents_.positions, ","), " missing=",
      contents_.missing.empty()
          ? "none"
          : absl::StrJoin(contents_.missing, ",",
                          [](std::string* out, const Range& range) {
                            absl::StrAppend(out, ToText(range));
                          }),
      " rank=",
      contents_.rank < 0 ? std::string("all") : absl::StrCat(contents_.rank),
      "/", contents_.world_size);
  for (const auto& [name, value] : contents_.order) {
    absl::StrAppend(&text, " ", name, "=", value);
  }
  return text;
}

absl::StatusOr<LoaderState> LoaderState::Parse(absl::string_view text) {
  if (text.size() > kMaxText) {
    return Malformed(absl::StrCat("a text of ", text.size(),
                                  " bytes; want at most ", kMaxText));
  }
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words[0] != kMagic || words.size() < 2) {
    return Malformed(absl::StrCat("the text begins with ", Shown(words[0]),
                                  "; want ", kMagic, " version=", kVersion));
  }
  TENON_ASSIGN_OR_RETURN(const absl::string_view version,
                         ValueOf("version", words[1]));
  if (version != absl::StrCat(kVersion)) {
    return Malformed(absl::StrCat("a state of version ", Shown(version),
                                  "; this library reads version ", kVersion));
  }
  constexpr size_t kWords = 6;  // Before those of the order.
  if (words.size() <= kWords || words.size() > kWords + kMaxOrder) {
    return Malformed(absl::StrCat("the text has ", words.size(),
                                  " words; want ", kWords + 1, " to ",
                                  kWords + kMaxOrder));
  }
  Contents contents;
  TENON_ASSIGN_OR_RETURN(absl::string_view value, ValueOf("epoch", words[2]));
  TENON_ASSIGN_OR_RETURN(
      contents.epoch,
      Number("epoch", value, std::numeric_limits<int64_t>::max()));
  TENON_ASSIGN_OR_RETURN(value, ValueOf("position", words[3]));
  TENON_ASSIGN_OR_RETURN(contents.positions, Positions(value));
  TENON_ASSIGN_OR_RETURN(value, ValueOf("missing", words[4]));
  TENON_ASSIGN_OR_RETURN(contents.missing,
                         Missing(value, contents.positions[0]));
  TENON_ASSIGN_OR_RETURN(value, ValueOf("rank", words[5]));
  TENON_RETURN_IF_ERROR(SetRank(value, contents));
  for (size_t i = kWords; i < words.size(); ++i) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(words[i], absl::MaxSplits('=', 1));
    if (pair.first.empty() || pair.second.empty() ||
        !std::all_of(words[i].begin(), words[i].end(), [](char c) {
          return absl::ascii_isgraph(static_cast<unsigned char>(c));
        })) {
      return Malformed(
          absl::StrCat("there is ", Shown(words[i]), "; want NAME=VALUE"));
    }
    contents.order.emplace_back(pair.first, pair.second);
  }
  return LoaderState(std::move(contents));
}

absl::StatusOr<LoaderState> LoaderState::CombineRanks(
    absl::Span<const LoaderState> states) {
  const auto ranks = static_cast<size_t>(states[0].contents_.world_size);
  std::vector<const Contents*> by_rank(ranks);
  Contents combined = states[0].contents_;
  size_t period = ranks;
  for (const LoaderState& state : states) {
    const Contents*& of_rank =
        by_rank[static_cast<size_t>(state.contents_.rank)];
    if (of_rank != nullptr) {
      return Refused(
          absl::StrCat("there are two states of rank ", state.contents_.rank));
    }
    of_rank = &state.contents_;
    combined.epoch = std::min(combined.epoch, of_rank->epoch);
    period = std::lcm(period, of_rank->positions.size());
    if (period > kMaxStatePositions) break;  // Which is an error below.
  }
  const auto at = [&](size_t lane) -> int64_t {
    const Contents& contents = *by_rank[lane % ranks];
    // It has received the epoch's last batch of its lanes.
    if (contents.epoch > combined.epoch) return kMaxStatePosition;
    return contents.positions[lane % contents.positions.size()];
  };
  TENON_ASSIGN_OR_RETURN(combined.positions, PositionsByLane(period, at));
  combined.rank = -1;
  combined.world_size = 1;
  return LoaderState(std::move(combined));
}

absl::StatusOr<LoaderState> LoaderState::Combine(
    absl::Span<const LoaderState> states) {
  if (states.empty()) return Refused("there are no states; want one of a rank");
  const Contents& first = states[0].contents_;
  for (size_t i = 1; i < states.size(); ++i) {
    const Contents& other = states[i].contents_;
    const std::string name = absl::StrCat("state ", i);
    const std::string difference =
        OrderDifference("state 0", first.order, name, other.order);
    if (!difference.empty()) return Refused(difference);
    if (other.epoch != first.epoch && !AreNeighbours(first, other)) {
      return Refused(absl::StrCat("state 0 is of epoch ", first.epoch, ", ",
                                  name, " of epoch ", other.epoch));
    }
    if (other.world_size != first.world_size ||
        (other.rank < 0) != (first.rank < 0)) {
      return Refused(absl::StrCat(
          name, " is of rank ",
          other.rank < 0 ? "all" : absl::StrCat(other.rank), " of ",
          other.world_size, ", state 0 of ", first.world_size, " ranks"));
    }
    if (first.rank < 0 && !(other == first)) {
      return Refused(
          absl::StrCat("the ranks have stopped at different batches: state 0 "
                       "is at position ",
                       Cut(absl::StrJoin(first.positions, ",")), ", ", name,
                       " at ", Cut(absl::StrJoin(other.positions, ",")),
                       "; take the states after the same number of batches"));
    }
  }
  if (first.rank < 0) return states[0];
  if (states.size() != static_cast<size_t>(first.world_size)) {
    return Refused(absl::StrCat("there are ", states.size(), " states of ",
                                first.world_size, " ranks; want one of each"));
  }
  return CombineRanks(states);
}

}  // namespace tenon::loader
