// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_task.h"

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/pool_receiver.h"

namespace tenon::spawn {
namespace {

// A copy that shares no state. Each receiver may be used by another thread, and
// ThreadSanitizer does not see the reference counts of copies, because their
// library is usually not instrumented.
// Names the call before the message.
absl::Status UnsharedError(const absl::Status& status,
                           const std::string& function,
                           const PoolReceiver& receiver) {
  const std::optional<size_t> input = receiver.input();
  absl::Status copy(status.code(),
                    absl::StrCat("pool function '", function, "'",
                                 input ? absl::StrCat(", input ", *input) : "",
                                 ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    copy.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return copy;
}

}  // namespace

absl::Status TaskExpiredError() {
  return absl::DeadlineExceededError(
      "the task's deadline passed before a worker was free");
}

absl::Status TaskCancelledError() {
  return absl::CancelledError(
      "the task was cancelled before it reached a worker");
}

void PoolCompletions::Add(const std::string& function,
                          std::unique_ptr<PoolReceiver> receiver,
                          absl::StatusOr<PackedArguments> answer) {
  if (!answer.ok()) {
    answer = UnsharedError(answer.status(), function, *receiver);
  }
  answers_.emplace_back(std::move(receiver), std::move(answer));
}

void PoolCompletions::Fail(std::shared_ptr<PoolTask> task,
                           const absl::Status& why) {
  if (task == nullptr) return;
  for (auto& receiver : task->receivers) {
    if (receiver != nullptr) Add(task->function, std::move(receiver), why);
  }
  task->receivers.clear();
  Drop(std::move(task));
}

void PoolCompletions::Drop(std::shared_ptr<PoolTask> task) {
  if (task != nullptr) ended_.push_back(std::move(task));
}

void PoolCompletions::Append(PoolCompletions&& others) {
  std::move(others.ended_.begin(), others.ended_.end(),
            std::back_inserter(ended_));
  std::move(others.answers_.begin(), others.answers_.end(),
            std::back_inserter(answers_));
  others.ended_.clear();
  others.answers_.clear();
}

void PoolCompletions::Run() && {
  ended_.clear();
  for (auto& [receiver, answer] : answers_) {
    receiver->Receive(std::move(answer));
    receiver.reset();
  }
  answers_.clear();
}

}  // namespace tenon::spawn
