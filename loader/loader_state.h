// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderState: how far a job has come in an epoch, as a small value and as
// text; see Loader::State() and Load().
//
//   TENON_ASSIGN_OR_RETURN(LoaderState state, photos->State());
//   const std::string text = state.ToString();  // For the checkpoint.
//   // When the job runs again, with any numbers of workers and ranks:
//   TENON_ASSIGN_OR_RETURN(state, LoaderState::Parse(text));
//   TENON_RETURN_IF_ERROR(photos->Load(state));
//   for (int64_t epoch = state.epoch(); epoch < 90; ++epoch) {
//     for (absl::StatusOr<Batch>& batch : photos->Epoch(epoch)) {
//       TENON_RETURN_IF_ERROR(batch.status());
//       Use(*batch->data<int64_t>("label"));
//     }
//   }

#ifndef TENON_LOADER_LOADER_STATE_H_
#define TENON_LOADER_LOADER_STATE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// A position in the order of an epoch of the whole job, and what that order
// depends on: the dataset's name and size, the seed, a digest of the sampler's
// order; of an iterable dataset its shards, and what its batches depend on. Not
// its arguments: paths may be others where the job goes on.
//
// Size: some 200 bytes, whatever the dataset's size. Only with
//   LoaderOptions::in_order false it also has a position for each worker of an
//   iterable dataset, or for each batch that is late, of which there are fewer
//   than prefetch x workers. Combine() of an iterable dataset keeps a position
//   for each rank.
// A value; thread-compatible.
class LoaderState {
 public:
  // Positions [first, end) of the order.
  struct Range {
    int64_t first = 0;
    int64_t end = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };
  // For loaders.
  struct Contents {
    int64_t epoch = 0;
    // Of a map-style dataset one: what comes before it has been received, in
    // samples of the whole job, or batches of a batch sampler. Of an iterable
    // dataset n: lane l goes on with its first batch whose number is at least
    // positions[l % n].
    std::vector<int64_t> positions = {0};
    std::vector<Range> missing = {};  // Before the position, and not received.
    // Of an iterable dataset: the only rank whose lanes this is of, or -1; and
    // the number of ranks.
    int rank = -1;
    int world_size = 1;
    // What the order depends on: names and values, in the order of the text.
    std::vector<std::pair<std::string, std::string>> order;
    friend bool operator==(const Contents&, const Contents&) = default;
  };
  explicit LoaderState(Contents contents) : contents_(std::move(contents)) {}

  // The state that ToString() has written. Errors: kInvalidArgument for any
  // other text, with the place; also for that of another version, naming both.
  static absl::StatusOr<LoaderState> Parse(absl::string_view text);

  // One line of printable characters, without its end.
  std::string ToString() const;

  // The state of a job, of those of all its ranks, in any order. Those of
  // map-style datasets must be equal: the ranks have received the same number
  // of batches. Ranks of an iterable dataset may have stopped anywhere in an
  // epoch, or after it.
  // Errors: kInvalidArgument for no states, states of different epochs or
  // orders, naming both, and for a rank that is missing or there twice;
  // kResourceExhausted if it needs more than 65,536 positions.
  static absl::StatusOr<LoaderState> Combine(
      absl::Span<const LoaderState> states);

  int64_t epoch() const { return contents_.epoch; }
  const Contents& contents() const { return contents_; }

  friend bool operator==(const LoaderState&, const LoaderState&) = default;

 private:
  // Of ranks of an iterable dataset.
  static absl::StatusOr<LoaderState> CombineRanks(
      absl::Span<const LoaderState> states);

  Contents contents_;
};

// Limits of positions, and of their number.
inline constexpr int64_t kMaxStatePosition = int64_t{1} << 60;
inline constexpr size_t kMaxStatePositions = size_t{1} << 16;

// Positions by lane, as in LoaderState::Contents, where lane l has that of
// at(l), which depends on l modulo `period` alone. One if all are the same.
// Errors: kResourceExhausted for more than kMaxStatePositions.
absl::StatusOr<std::vector<int64_t>> PositionsByLane(
    size_t period, absl::FunctionRef<int64_t(size_t)> at);

// The first difference of what two orders depend on, as "seed 7 ... seed 8";
// empty if there is none. For loaders.
std::string OrderDifference(
    absl::string_view one,
    const std::vector<std::pair<std::string, std::string>>& ones,
    absl::string_view other,
    const std::vector<std::pair<std::string, std::string>>& others);

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOADER_STATE_H_
