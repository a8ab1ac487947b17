// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/result_stream.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/internal/pool_dispatcher.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/pool_receiver.h"

namespace tenon::spawn::internal_pool {

// Answers by the index of their input. Thread-safe.
class StreamCore::Answers {
 public:
  using Answer = absl::StatusOr<PackedArguments>;

  void Put(size_t i, Answer answer) {
    {
      const ThreadLock lock(&mutex_);
      ready_.emplace(i, std::move(answer));
    }
    came_.NotifyOne();
  }

  // The answer to input `i`; with nullopt the one to the first input that has
  // been answered. Waits for it; nullopt at the deadline.
  std::optional<Answer> Take(std::optional<size_t> i, Deadline deadline) {
    const ThreadLock lock(&mutex_);
    for (;;) {
      const auto first = i ? ready_.find(*i) : ready_.begin();
      if (first != ready_.end()) {
        std::optional<Answer> answer = std::move(first->second);
        ready_.erase(first);
        return answer;
      }
      if (deadline.has_passed()) return std::nullopt;
      came_.WaitFor(&mutex_, deadline.Remaining());
    }
  }

 private:
  ThreadMutex mutex_;
  ThreadCondition came_;
  std::map<size_t, Answer> ready_ ABSL_GUARDED_BY(mutex_);
};

class StreamCore::Receiver final : public PoolReceiver {
 public:
  Receiver(std::shared_ptr<Answers> answers, size_t i)
      : answers_(std::move(answers)), i_(i) {}
  void Receive(absl::StatusOr<PackedArguments> answer) override {
    answers_->Put(i_, std::move(answer));
  }
  std::optional<size_t> input() const override { return i_; }

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
  std::optional<absl::StatusOr<PackedArguments>> answer = answers_->Take(
      options_.ordered ? std::optional(taken_) : std::nullopt, deadline);
  if (!answer) return absl::DeadlineExceededError("no result yet");
  ++taken_;
  Feed();
  return *std::move(answer);
}

}  // namespace tenon::spawn::internal_pool
