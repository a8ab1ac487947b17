// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks of member datasets.

#ifndef TENON_LOADER_DATASETS_MEMBERS_H_
#define TENON_LOADER_DATASETS_MEMBERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/iterable_dataset.h"

namespace tenon::loader {

// Fails if a member is null or there is none. `call` is for errors, such as
// "ConcatDataset::Create()".
template <typename D>
absl::Status CheckMembers(absl::string_view call,
                          const std::vector<std::unique_ptr<D>>& members) {
  if (members.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": there are no datasets"));
  }
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i] != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": dataset ", i, " is null"));
  }
  return absl::OkStatus();
}

// Fails if a dataset, member number `i`, has no samples by index.
inline absl::Status CheckMapStyle(absl::string_view call, size_t i,
                                  const Dataset& dataset) {
  if (dynamic_cast<const IterableDataset*>(&dataset) == nullptr) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      call, ": dataset ", i,
      " is iterable, without samples by index; give a map-style dataset"));
}

// Fails if one has other fields than the first.
template <typename D>
absl::Status CheckSameFields(absl::string_view call,
                             const std::vector<std::unique_ptr<D>>& members) {
  const std::string first = members[0]->spec().ToString();
  for (size_t i = 1; i < members.size(); ++i) {
    const std::string other = members[i]->spec().ToString();
    if (other == first) continue;
    return absl::InvalidArgumentError(absl::StrCat(call, ": dataset ", i,
                                                   " has the fields ", other,
                                                   ", dataset 0 has ", first));
  }
  return absl::OkStatus();
}

// Fails if one has another number of shards than the first.
inline absl::Status CheckSameShards(
    absl::string_view call,
    const std::vector<std::unique_ptr<IterableDataset>>& members) {
  const int64_t first = members[0]->shards();
  for (size_t i = 1; i < members.size(); ++i) {
    if (members[i]->shards() == first) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(call, ": dataset ", i, " has ", members[i]->shards(),
                     " shards, dataset 0 has ", first));
  }
  return absl::OkStatus();
}

// The fewest of the members' open shards.
inline int64_t FewestOpenShards(
    const std::vector<std::unique_ptr<IterableDataset>>& members) {
  int64_t fewest = members[0]->open_shards();
  for (const auto& member : members) {
    fewest = std::min(fewest, member->open_shards());
  }
  return fewest;
}

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATASETS_MEMBERS_H_
