// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/loader_progress.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/data/catching.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

// As a value in the text of a state: one word of printable characters.
std::string AsWord(absl::string_view text) {
  std::string word;
  for (const char c : text) {
    if (absl::ascii_isgraph(static_cast<unsigned char>(c)) && c != '%') {
      word.push_back(c);
    } else {
      absl::StrAppend(
          &word, "%",
          absl::Hex(static_cast<unsigned char>(c), absl::kZeroPad2));
    }
  }
  return word.empty() ? "%" : word;
}

// FNV-1a, of which the result is the same in all processes.
class Hash {
 public:
  void Add(int64_t value) {
    auto left = static_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i) {
      hash_ = (hash_ ^ (left & 0xff)) * 0x100000001b3;
      left >>= 8;
    }
  }
  std::string ToString() const {
    return absl::StrCat(absl::Hex(hash_, absl::kZeroPad16));
  }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

// Place `i` of `count` that are spread over an order of `size` > 0.
int64_t Spread(int64_t size, int64_t i, int64_t count) {
  const int64_t last = size - 1;
  const int64_t parts = count - 1;
  return last / parts * i + last % parts * i / parts;
}

int64_t QuotientUp(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor == 0 ? 0 : 1);
}

bool IsBeginning(const LoaderState::Contents& state) {
  return state.missing.empty() &&
         std::all_of(state.positions.begin(), state.positions.end(),
                     [](int64_t position) { return position == 0; });
}

absl::string_view NameOf(OnSampleError on_error) {
  return on_error == OnSampleError::kSkip ? "skip" : "fail";
}

}  // namespace

LoaderProgress::LoaderProgress(absl::string_view dataset,
                               const LoaderOptions& options,
                               const EpochPlan& whole)
    : options_(options),
      dataset_(AsWord(dataset)),
      whole_(whole),
      rank_(options.rank.value_or(Rank())) {
  size_t orders = 1;
  if (is_stream() && !options_.in_order && options_.workers > 0) {
    orders = static_cast<size_t>(options_.workers) *
             static_cast<size_t>(rank_.world_size);
  }
  next_of_lanes_.resize(orders);
}

bool LoaderProgress::is_slice() const {
  return whole_.batch_sampler != nullptr
             ? &whole_.batch_sampler->Whole() != whole_.batch_sampler
             : &whole_.sampler->Whole() != whole_.sampler;
}

int64_t LoaderProgress::WholeSize() const {
  return whole_.batch_sampler != nullptr ? whole_.batch_sampler->Whole().size()
                                         : whole_.sampler->Whole().size();
}

absl::Status LoaderProgress::CheckSlice() const {
  if (whole_.batch_sampler != nullptr || is_slice()) return absl::OkStatus();
  const int64_t size = whole_.sampler->size();
  for (const int64_t position : {int64_t{0}, size - 1}) {
    if (size == 0) break;
    const int64_t global = whole_.sampler->GlobalPosition(position);
    if (global == position) continue;
    return absl::UnimplementedError(absl::StrCat(
        "the sampler is a slice of another order, in which its position ",
        position, " is ", global,
        ", and does not say of which; override "
        "Sampler::Whole(), WholePosition() and From()"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> LoaderProgress::Digest(int64_t epoch) {
  if (digest_epoch_ == epoch) return digest_;
  constexpr int64_t kPlaces = 8;
  Hash hash;
  const int64_t size = WholeSize();
  hash.Add(size);
  for (int64_t i = 0; i < kPlaces && size > 0; ++i) {
    const int64_t at = Spread(size, i, kPlaces);
    std::vector<int64_t> indices(1);
    if (whole_.batch_sampler != nullptr) {
      whole_.batch_sampler->Whole().Fill(epoch, at, indices);
    } else {
      whole_.sampler->Whole().Fill(epoch, at, absl::MakeSpan(indices));
    }
    hash.Add(std::ssize(indices));
    for (const int64_t index : indices) hash.Add(index);
  }
  digest_ = hash.ToString();
  digest_epoch_ = epoch;
  return digest_;
}

absl::StatusOr<LoaderProgress::Order> LoaderProgress::OrderOf(int64_t epoch) {
  if (options_.replay) {
    return absl::FailedPreconditionError(
        "with LoaderOptions::replay batches are returned more than once, so "
        "what was received is no position; leave replay unset");
  }
  Order order = {{"dataset", dataset_}};
  const auto add = [&](absl::string_view name, const auto& value) {
    order.emplace_back(std::string(name), absl::StrCat(value));
  };
  add("seed", options_.seed);
  if (is_stream()) {
    add("shards", whole_.shards);
    add("open_shards", whole_.lanes);
    add("batch_size", whole_.batch_size);
    add("drop_last", options_.drop_last ? 1 : 0);
    add("on_sample_error", NameOf(options_.on_sample_error));
    return order;
  }
  add("items", whole_.dataset_size);
  const absl::Status added = Catching("the sampler", [&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(CheckSlice());
    add(whole_.batch_sampler != nullptr ? "batches" : "samples", WholeSize());
    TENON_ASSIGN_OR_RETURN(const std::string digest, Digest(epoch));
    add("order", digest);
    return absl::OkStatus();
  });
  TENON_RETURN_IF_ERROR(added);
  return order;
}

absl::StatusOr<EpochPlan> LoaderProgress::Begin(int64_t epoch) {
  std::unique_ptr<Rest> rest;
  if (loaded_ && loaded_->epoch == epoch && !IsBeginning(*loaded_)) {
    TENON_ASSIGN_OR_RETURN(
        rest,
        Catching("the sampler", [&]() -> absl::StatusOr<std::unique_ptr<Rest>> {
          return RestOf(*loaded_);
        }));
  }
  loaded_.reset();
  retired_ = std::exchange(rest_, std::move(rest));
  plan_ = rest_ == nullptr ? &whole_ : &rest_->plan;
  epoch_ = epoch;
  ended_ = false;
  next_ = plan_->first_batch;
  late_.clear();
  std::fill(next_of_lanes_.begin(), next_of_lanes_.end(), 0);
  EpochPlan plan = *plan_;
  plan.epoch = epoch;
  return plan;
}

absl::StatusOr<std::unique_ptr<LoaderProgress::Rest>> LoaderProgress::RestOf(
    const LoaderState::Contents& state) const {
  auto rest = std::make_unique<Rest>();
  EpochPlan& plan = rest->plan;
  plan = whole_;
  plan.whole = &whole_;
  if (is_stream()) {
    plan.start = {.lanes = whole_.lanes, .positions = state.positions};
    return rest;
  }
  int64_t left = 0;  // Batches of the sampler.
  if (whole_.batch_sampler != nullptr) {
    rest->batch_sampler = whole_.batch_sampler->From(state.positions[0]);
    plan.batch_sampler = rest->batch_sampler.get();
    plan.missing_batches_from = whole_.batch_sampler;
    left = plan.batch_sampler->size();
  } else {
    rest->sampler = whole_.sampler->From(state.positions[0]);
    plan.sampler = rest->sampler.get();
    plan.missing_from = whole_.sampler;
    const int64_t samples = plan.sampler->size();
    left = options_.drop_last ? samples / plan.batch_size
                              : QuotientUp(samples, plan.batch_size);
  }
  const int64_t each = whole_.batch_sampler != nullptr ? 1 : whole_.batch_size;
  for (const LoaderState::Range& range : state.missing) {
    plan.missing.push_back({.first = range.first,
                            .end = range.end,
                            .batches_before = plan.missing_batches});
    plan.missing_batches += QuotientUp(range.end - range.first, each);
  }
  left += plan.missing_batches;
  // The last batch has the number that it has in a complete epoch.
  plan.first_batch = std::max<int64_t>(whole_.batches - left, 0);
  plan.batches = plan.first_batch + left;
  return rest;
}

void LoaderProgress::OnBatch(int64_t number) {
  if (is_stream()) {
    const auto lane = static_cast<size_t>(number % whole_.lanes);
    int64_t& next = next_of_lanes_[lane % next_of_lanes_.size()];
    next = std::max(next, number + 1);
    return;
  }
  if (number < next_) {
    late_.erase(number);
    return;
  }
  while (next_ < number) late_.insert(next_++);
  ++next_;
}

void LoaderProgress::OnEnd() {
  if (ended_ || epoch_ == std::numeric_limits<int64_t>::max()) return;
  ended_ = true;
}

absl::StatusOr<LoaderState> LoaderProgress::State() {
  if (loaded_) return LoaderState(*loaded_);
  LoaderState::Contents contents;
  contents.epoch = epoch_ + (ended_ ? 1 : 0);
  TENON_ASSIGN_OR_RETURN(contents.order, OrderOf(contents.epoch));
  if (is_stream() && rank_.world_size > 1) {
    contents.rank = rank_.rank;
    contents.world_size = rank_.world_size;
  }
  if (ended_) return LoaderState(std::move(contents));
  TENON_RETURN_IF_ERROR(Catching("the sampler", [&] {
    return is_stream() ? SetLanePositions(contents) : SetPosition(contents);
  }));
  return LoaderState(std::move(contents));
}

absl::StatusOr<int64_t> LoaderProgress::PositionAfter(int64_t batches) const {
  std::optional<int64_t> position;
  if (plan_->batch_sampler != nullptr) {
    position = plan_->batch_sampler->WholePosition(batches);
  } else {
    const int64_t size = plan_->sampler->size();
    position = plan_->sampler->WholePosition(
        batches >= QuotientUp(size, plan_->batch_size)
            ? size
            : batches * plan_->batch_size);
  }
  if (position) return *position;
  return absl::FailedPreconditionError(absl::StrCat(
      "after ", batches, " batches of ", plan_->batch_size,
      " samples each, what the ranks have received is not the beginning of the "
      "job's order, which the sampler divides in another way; give the sampler "
      "the loader's batch_size, or call State() at the end of its batches"));
}

absl::StatusOr<LoaderState::Range> LoaderProgress::RangeOf(
    int64_t number) const {
  const int64_t n = number - plan_->first_batch;
  if (n < plan_->missing_batches) {
    const EpochPlan::Missing range = plan_->MissingBatch(n);
    return LoaderState::Range{range.first, range.end};
  }
  if (is_slice()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "batch ", next_ - 1, " has been received before batch ", number,
        " (in_order is false), which the state of one of several ranks cannot "
        "say; call State() when no batch is late"));
  }
  TENON_ASSIGN_OR_RETURN(const int64_t first,
                         PositionAfter(n - plan_->missing_batches));
  TENON_ASSIGN_OR_RETURN(const int64_t end,
                         PositionAfter(n - plan_->missing_batches + 1));
  return LoaderState::Range{first, end};
}

absl::Status LoaderProgress::SetPosition(
    LoaderState::Contents& contents) const {
  const auto add = [&](const LoaderState::Range& range) {
    if (!contents.missing.empty() &&
        contents.missing.back().end == range.first) {
      contents.missing.back().end = range.end;
    } else {
      contents.missing.push_back(range);
    }
  };
  for (const int64_t number : late_) {
    TENON_ASSIGN_OR_RETURN(const LoaderState::Range range, RangeOf(number));
    add(range);
  }
  const int64_t received = next_ - plan_->first_batch;
  if (received < plan_->missing_batches) {
    // The rest of the range of that batch, and the ranges after it.
    const int64_t from = plan_->MissingBatch(received).first;
    for (const EpochPlan::Missing& range : plan_->missing) {
      if (range.end > from) add({std::max(range.first, from), range.end});
    }
  }
  TENON_ASSIGN_OR_RETURN(
      contents.positions[0],
      PositionAfter(std::max<int64_t>(received - plan_->missing_batches, 0)));
  return absl::OkStatus();
}

absl::Status LoaderProgress::SetLanePositions(
    LoaderState::Contents& contents) const {
  if (!options_.in_order && options_.workers == kAuto &&
      next_of_lanes_[0] > 0) {
    return absl::FailedPreconditionError(
        "with in_order false and workers kAuto it is not known which lanes of "
        "an iterable dataset are late; set workers to a number, or call "
        "State() between epochs");
  }
  const std::vector<int64_t>& start = plan_->start.positions;
  const size_t period = start.empty()
                            ? next_of_lanes_.size()
                            : std::lcm(next_of_lanes_.size(), start.size());
  TENON_ASSIGN_OR_RETURN(
      contents.positions, PositionsByLane(period, [&](size_t lane) {
        const int64_t before = start.empty() ? 0 : start[lane % start.size()];
        return std::max(before, next_of_lanes_[lane % next_of_lanes_.size()]);
      }));
  return absl::OkStatus();
}

absl::Status LoaderProgress::CheckLoadable(
    const LoaderState::Contents& state) const {
  const auto refused = [](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat("the state ", why...));
  };
  if (state.positions.empty() || state.epoch < 0) {
    return refused("has ", state.positions.size(), " positions of epoch ",
                   state.epoch, "; want one position of an epoch >= 0");
  }
  for (const int64_t position : state.positions) {
    if (position < 0 || position > kMaxStatePosition) {
      return refused("has position ", position, "; want 0 to ",
                     kMaxStatePosition);
    }
  }
  if (is_stream()) {
    if (!state.missing.empty()) {
      return refused("of an iterable dataset has missing batches; want none");
    }
    if (state.rank < 0 ||
        (state.rank == rank_.rank && state.world_size == rank_.world_size)) {
      return absl::OkStatus();
    }
    return refused("is of rank ", state.rank, " of ", state.world_size,
                   ", this loader is rank ", rank_.rank, " of ",
                   rank_.world_size,
                   "; combine the states of all ranks by "
                   "LoaderState::Combine()");
  }
  const int64_t size = WholeSize();
  if (state.positions.size() != 1 || state.rank >= 0) {
    return refused(
        "has positions of lanes or ranks, which a map-style dataset does not "
        "have");
  }
  if (state.positions[0] > size) {
    return refused("has position ", state.positions[0], " in an order of ",
                   size);
  }
  int64_t after = 0;
  for (const LoaderState::Range& range : state.missing) {
    if (range.first < after || range.end <= range.first ||
        range.end > state.positions[0]) {
      return refused("misses positions ", range.first, " to ", range.end,
                     "; want ranges after one another, up to position ",
                     state.positions[0]);
    }
    after = range.end;
  }
  if (state.missing.empty() || !is_slice()) return absl::OkStatus();
  return refused("misses positions before ", after,
                 ", as its batches were not received in order (in_order "
                 "false); several ranks cannot load it: finish its epoch with "
                 "one rank, or save a state when no batch is late");
}

absl::Status LoaderProgress::Load(const LoaderState& state) {
  const LoaderState::Contents& contents = state.contents();
  if (contents.epoch < 0) return CheckLoadable(contents);
  TENON_ASSIGN_OR_RETURN(const Order order, OrderOf(contents.epoch));
  const std::string difference =
      OrderDifference("the state", contents.order, "this loader", order);
  if (!difference.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        difference, "; its batches would not be those that remain"));
  }
  TENON_RETURN_IF_ERROR(
      Catching("the sampler", [&] { return CheckLoadable(contents); }));
  loaded_ = contents;
  return absl::OkStatus();
}

}  // namespace tenon::loader
