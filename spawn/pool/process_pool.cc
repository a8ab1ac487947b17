// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/process_pool.h"

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/futures/wait_helper.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/pool/internal/pool_dispatcher.h"
#include "tenon/spawn/pool/internal/pool_task.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/pool_receiver.h"

namespace tenon::spawn {
namespace internal_pool {
namespace {

class TaskWaiter final : public futures::internal_future::WaitHelper {
 public:
  TaskWaiter(std::weak_ptr<PoolDispatcher> pool, uint64_t task_id)
      : pool_(std::move(pool)), task_id_(task_id) {}

  void Help(std::chrono::steady_clock::time_point deadline) override {
    const std::shared_ptr<PoolDispatcher> pool = pool_.lock();
    if (pool != nullptr) pool->Lead(task_id_, deadline);
  }

 private:
  std::weak_ptr<PoolDispatcher> pool_;
  uint64_t task_id_;
};

}  // namespace

std::shared_ptr<futures::internal_future::WaitHelper> LeaderOf(
    std::weak_ptr<PoolDispatcher> pool, uint64_t task_id) {
  return std::make_shared<TaskWaiter>(std::move(pool), task_id);
}

void CancelTask(const std::weak_ptr<PoolDispatcher>& pool, uint64_t task_id) {
  const std::shared_ptr<PoolDispatcher> core = pool.lock();
  if (core != nullptr) core->Cancel(task_id);
}

}  // namespace internal_pool

absl::StatusOr<ProcessPool> ProcessPool::Create(PoolOptions options) {
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<PoolDispatcher> core,
                         PoolDispatcher::Create(std::move(options)));
  return ProcessPool(std::move(core));
}

ProcessPool::ProcessPool(std::unique_ptr<PoolDispatcher> core)
    : core_(std::move(core)), fork_count_(ForkCount()) {}

ProcessPool::~ProcessPool() {
  if (core_ == nullptr) return;
  if (ForkCount() != fork_count_) {
    // The thread and the workers belong to another process: leaked on purpose.
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new)
    new std::shared_ptr<PoolDispatcher>(std::move(core_));
    return;
  }
  Abort();
}

absl::Status ProcessPool::Shutdown(Deadline deadline) {
  return core_->Shutdown(deadline);
}

void ProcessPool::Abort() { core_->Abort(); }

PoolCounts ProcessPool::counts() const { return core_->counts(); }
std::vector<pid_t> ProcessPool::worker_pids() const {
  return core_->WorkerPids();
}

uint64_t ProcessPool::NewTaskId() const { return core_->NewTaskId(); }

void ProcessPool::SubmitOne(uint64_t id, const TaskOptions& options,
                            absl::StatusOr<std::string> function,
                            absl::StatusOr<PackedArguments> arguments,
                            std::unique_ptr<PoolReceiver> receiver) const {
  absl::Status bad = function.status();
  bad.Update(arguments.status());
  if (!bad.ok()) return receiver->Receive(bad);
  PoolTask task = {.function = *std::move(function),
                   .calls = {},
                   .receivers = {},
                   .deadline = options.deadline,
                   .id = id,
                   .kill_on_cancel = options.kill_on_cancel};
  task.calls.push_back(*std::move(arguments));
  task.receivers.push_back(std::move(receiver));
  core_->Submit(std::move(task));
}

void ProcessPool::SubmitChunks(
    uint64_t id, const MapOptions& options,
    const absl::StatusOr<std::string>& function, size_t count,
    absl::FunctionRef<absl::StatusOr<PackedArguments>(size_t)> pack,
    absl::FunctionRef<std::unique_ptr<PoolReceiver>(size_t)> receiver_of)
    const {
  size_t chunk = options.chunk_size;
  if (chunk == 0) {
    chunk = std::max<size_t>(count / (4 * core_->max_workers()), 1);
  }
  for (size_t begin = 0; begin < count; begin += chunk) {
    PoolTask task = {.function = function.value_or(""),
                     .calls = {},
                     .receivers = {},
                     .deadline = options.deadline,
                     .id = id};
    for (size_t i = begin; i < std::min(begin + chunk, count); ++i) {
      absl::StatusOr<PackedArguments> call =
          function.ok() ? pack(i) : function.status();
      if (!call.ok()) {
        receiver_of(i)->Receive(call.status());
        continue;
      }
      task.calls.push_back(*std::move(call));
      task.receivers.push_back(receiver_of(i));
    }
    if (!task.calls.empty()) core_->Submit(std::move(task));
  }
}

absl::StatusOr<std::string> ProcessPool::NameOfPooled(void (*function)()) {
  std::optional<std::string> name = PoolFunctionNameOf(function);
  if (name) return *std::move(name);
  return absl::NotFoundError(
      "this function is not registered: write TENON_POOL_FUNCTION(its name); "
      "below it");
}

absl::StatusOr<std::string> ProcessPool::CheckPooled(
    absl::string_view function, const std::string& signature) {
  const std::optional<PoolFunctionRecord> found = FindPoolFunction(function);
  if (!found) {
    return absl::NotFoundError(absl::StrCat(
        "no TENON_POOL_FUNCTION '", function,
        "'; registered: ", absl::StrJoin(PoolFunctionNames(), ", ")));
  }
  if (found->signature == signature) return std::string(function);
  return SignatureMismatch(absl::StrCat("'", function, "'"), found->signature,
                           signature);
}

}  // namespace tenon::spawn
