// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/sharing_strategy.h"

#include <atomic>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace tenon {
namespace {

constexpr SharingStrategy kAll[] = {SharingStrategy::kFileDescriptor,
                                    SharingStrategy::kFileSystem};

std::atomic<SharingStrategy> current{SharingStrategy::kFileDescriptor};

}  // namespace

std::span<const SharingStrategy> AllSharingStrategies() { return kAll; }

absl::string_view SharingStrategyName(SharingStrategy strategy) {
  switch (strategy) {
    case SharingStrategy::kFileDescriptor:
      return "file_descriptor";
    case SharingStrategy::kFileSystem:
      return "file_system";
  }
  return "unknown";
}

absl::StatusOr<SharingStrategy> ParseSharingStrategy(absl::string_view name) {
  for (SharingStrategy strategy : kAll) {
    if (name == SharingStrategyName(strategy)) return strategy;
  }
  const std::string known =
      absl::StrJoin(kAll, ", ", [](std::string* out, SharingStrategy strategy) {
        absl::StrAppend(out, SharingStrategyName(strategy));
      });
  return absl::InvalidArgumentError(absl::StrCat("unknown sharing strategy '",
                                                 absl::CHexEscape(name),
                                                 "'; there are: ", known));
}

SharingStrategy GetSharingStrategy() {
  return current.load(std::memory_order_relaxed);
}

void SetSharingStrategy(SharingStrategy strategy) {
  current.store(strategy, std::memory_order_relaxed);
}

}  // namespace tenon
