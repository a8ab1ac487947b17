// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoaderState: the position of a job in an epoch, as a small value and as text.
// See Loader::State() and Load().
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

// A position in the order of an epoch of the whole job, and the values on which
// that order depends: the dataset's name and size, the seed, a digest of the
// sampler's order; of an iterable dataset its shards, and the options on which
// its batches depend. The dataset's arguments are not part of it: paths may
// differ where the job goes on.
//
// Size: some 200 bytes for a dataset of any size. With LoaderOptions::in_order
//   false also a position for each worker of an iterable dataset, or for each
//   late batch, of which there are fewer than prefetch x workers. Combine() of
//   an iterable dataset keeps a position for each rank.
// Ownership: a value. Threads: thread-compatible.
// Trust: Parse() takes any text; Loader::Load() checks each position.
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
    // Of a map-style dataset one: all samples of the whole job before it, or
    // batches of a batch sampler, have been received. Of an iterable dataset n:
    // lane l goes on with its first batch whose number is at least
    // positions[l % n].
    std::vector<int64_t> positions = {0};
    std::vector<Range> missing = {};  // Before the position, and not received.
    // Of an iterable dataset: the rank whose lanes the positions are of, -1 for
    // all lanes; and the number of ranks.
    int rank = -1;
    int world_size = 1;
    // The values on which the order depends, with their names, in the order of
    // the text.
    std::vector<std::pair<std::string, std::string>> order;
    friend bool operator==(const Contents&, const Contents&) = default;
  };
  explicit LoaderState(Contents contents) : contents_(std::move(contents)) {}

  // The state that ToString() has written. Errors: kInvalidArgument for any
  // other text, with the word that is malformed, and for the text of another
  // version, naming both versions.
  static absl::StatusOr<LoaderState> Parse(absl::string_view text);

  // One line of printable characters, without a newline.
  std::string ToString() const;

  // The state of a job, from those of all its ranks, in any order. States of a
  // map-style dataset must be equal: the ranks must have received the same
  // number of batches. Ranks of an iterable dataset may have stopped anywhere
  // in an epoch, or after it.
  // Errors: kInvalidArgument for no states, for states of different epochs or
  // orders, naming both, and for a rank without a state or with two;
  // kResourceExhausted for more than 65,536 positions.
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

// The largest position, and the most positions of a state.
inline constexpr int64_t kMaxStatePosition = int64_t{1} << 60;
inline constexpr size_t kMaxStatePositions = size_t{1} << 16;

// Positions by lane, as in LoaderState::Contents, where lane l has that of
// at(l), which depends on l modulo `period` alone. One if all are the same.
// Errors: kResourceExhausted for more than kMaxStatePositions.
absl::StatusOr<std::vector<int64_t>> PositionsByLane(
    size_t period, absl::FunctionRef<int64_t(size_t)> at);

// The first difference between the values of two orders, such as "the state is
// of seed 7, this loader of seed 8"; empty if there is none. For loaders.
std::string OrderDifference(
    absl::string_view one,
    const std::vector<std::pair<std::string, std::string>>& ones,
    absl::string_view other,
    const std::vector<std::pair<std::string, std::string>>& others);

}  // namespace tenon::loader

#endif  // TENON_LOADER_LOADER_STATE_H_
