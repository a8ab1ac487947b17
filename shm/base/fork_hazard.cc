// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/fork_hazard.h"

#include <atomic>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tenon {
namespace {

constinit std::atomic<const char*> hazard = nullptr;

}  // namespace

void NoteForkHazard(const char* what) {
  const char* none = nullptr;
  hazard.compare_exchange_strong(none, what);
}

absl::Status CheckNoForkHazard() {
  const char* const what = hazard.load();
  if (what == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(what,
                   " in this process, and cannot be used in a child that "
                   "is forked from it; use StartMethod::kSpawn"));
}

}  // namespace tenon
