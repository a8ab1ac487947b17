// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/worker_init.h"

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/name_registry.h"

namespace tenon::loader {
namespace {

constinit NameRegistry<WorkerInit> inits("TENON_LOADER_WORKER_INIT");

constinit thread_local std::optional<WorkerInfo> info_of_this_thread;

}  // namespace

std::optional<WorkerInfo> GetWorkerInfo() { return info_of_this_thread; }

ScopedWorkerInfo::ScopedWorkerInfo(const WorkerInfo& info)
    : before_(info_of_this_thread) {
  info_of_this_thread = info;
}

ScopedWorkerInfo::~ScopedWorkerInfo() { info_of_this_thread = before_; }

bool RegisterWorkerInit(absl::string_view name, WorkerInit init) {
  inits.Add(name, init);
  return true;
}

absl::StatusOr<std::string> NameOfWorkerInit(WorkerInit init) {
  const std::optional<std::string> name =
      inits.FindName([&](WorkerInit other) { return other == init; });
  if (name) return *name;
  return absl::NotFoundError(
      "worker_init is not registered, so workers cannot find it: write "
      "TENON_LOADER_WORKER_INIT(function) after the function");
}

absl::StatusOr<WorkerInit> FindWorkerInit(absl::string_view name) {
  const std::optional<WorkerInit> init = inits.Find(name);
  if (init) return *init;
  return absl::NotFoundError(
      absl::StrCat("no function is registered as worker_init '", name,
                   "'; there are: ", absl::StrJoin(inits.Names(), ", ")));
}

}  // namespace tenon::loader
