// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/result_stream.h"

#include <cxxabi.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/internal/pool_dispatcher.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/pool_receiver.h"

namespace tenon::spawn::internal_pool {

// Answers by the index of their input.
struct StreamCore::Answers {
  std::mutex mutex;
  std::condition_variable came;
  std::map<size_t, absl::StatusOr<PackedArguments>> ready;

  void Put(size_t i, absl::StatusOr<PackedArguments> answer) {
    {
      const std::lock_guard<std::mutex> lock(mutex);
      ready.emplace(i, std::move(answer));
    }
    came.notify_one();
  }
};

class StreamCore::Receiver final : public PoolReceiver {
 public:
  Receiver(std::shared_ptr<Answers> answers, size_t i)
      : answers_(std::move(answers)), i_(i) {}
  void Receive(absl::StatusOr<PackedArguments> answer) override {
    answers_->Put(i_, std::move(answer));
  }

 private:
  std::shared_ptr<Answers> answers_;
  size_t i_;
};

StreamCore::StreamCore(std::shared_ptr<PoolDispatcher> pool,
                       absl::StatusOr<std::string> function,
                       InputGenerator<PackedArguments> next,
                       const StreamOptions& options)
    : pool_(std::move(pool)),
      function_(std::move(function)),
      next_(std::move(next)),
      options_(options),
      answers_(std::make_shared<Answers>()) {
  options_.chunk_size = std::max<size_t>(options_.chunk_size, 1);
  if (options_.max_chunks == 0) options_.max_chunks = 2 * pool_->max_workers();
  // Above this, all inputs are sent at once.
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  most_under_way_ = options_.chunk_size < kMost / options_.max_chunks
                        ? options_.chunk_size * options_.max_chunks
                        : kMost;
  if (!function_.ok()) end_ = function_.status();
  Feed();
}

StreamCore::~StreamCore() = default;

void StreamCore::Feed() {
  while (!end_ && submitted_ - taken_ < most_under_way_) FeedChunk();
}

absl::StatusOr<std::optional<PackedArguments>> StreamCore::NextInput() {
  // A propagating exception would leave inputs without an answer.
  try {
    return next_();
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("the generator threw: ", e.what()));
  } catch (const abi::__forced_unwind&) {
    throw;  // The end of this thread.
  } catch (...) {
    return absl::InternalError(
        "the generator threw an object that is not a std::exception");
  }
}

void StreamCore::FeedChunk() {
  PoolTask task = {.function = *function_, .calls = {}, .receivers = {}};
  while (!end_ && task.calls.size() < options_.chunk_size) {
    absl::StatusOr<std::optional<PackedArguments>> input = NextInput();
    if (!input.ok()) {
      end_ = input.status();
    } else if (!input->has_value()) {
      end_ = absl::OutOfRangeError("the end of the stream");
    } else {
      task.calls.push_back(**std::move(input));
      task.receivers.push_back(
          std::make_unique<Receiver>(answers_, submitted_++));
    }
  }
  // Inputs before a failed one are still sent.
  if (!task.calls.empty()) pool_->Submit(std::move(task));
}

absl::StatusOr<PackedArguments> StreamCore::Next(Deadline deadline) {
  if (taken_ == submitted_) {
    const absl::Status end = *end_;
    end_ = absl::OutOfRangeError("the end of the stream");
    return end;
  }
  std::unique_lock<std::mutex> lock(answers_->mutex);
  const auto is_ready = [&] {
    return options_.ordered ? answers_->ready.count(taken_) > 0
                            : !answers_->ready.empty();
  };
  while (!answers_->came.wait_for(lock,
                                  absl::ToChronoNanoseconds(std::min(
                                      deadline.Remaining(), absl::Hours(24))),
                                  is_ready)) {
    if (deadline.has_passed()) {
      return absl::DeadlineExceededError("no result yet");
    }
  }
  const auto first =
      options_.ordered ? answers_->ready.find(taken_) : answers_->ready.begin();
  absl::StatusOr<PackedArguments> answer = std::move(first->second);
  answers_->ready.erase(first);
  lock.unlock();
  ++taken_;
  Feed();
  return answer;
}

}  // namespace tenon::spawn::internal_pool
