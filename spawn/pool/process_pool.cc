// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/process_pool.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/pool/internal/pool_dispatcher.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"

namespace tenon::spawn {

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
    new std::shared_ptr<PoolDispatcher>(std::move(core_));
    return;
  }
  Abort();
}

absl::Status ProcessPool::Shutdown(Deadline deadline) {
  return core_->Shutdown(deadline);
}

void ProcessPool::Abort() { core_->Abort(); }

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
