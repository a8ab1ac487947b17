// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/stack_dataset.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/datasets/members.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

constexpr char kCreate[] = "StackDataset::Create()";

}  // namespace

absl::StatusOr<std::unique_ptr<StackDataset>> StackDataset::Create(
    std::vector<std::unique_ptr<Dataset>> datasets) {
  TENON_RETURN_IF_ERROR(CheckMembers(kCreate, datasets));
  SampleSpec spec;
  std::vector<Member> members;
  for (std::unique_ptr<Dataset>& dataset : datasets) {
    TENON_RETURN_IF_ERROR(CheckMapStyle(kCreate, members.size(), *dataset));
    const int64_t first_size =
        members.empty() ? dataset->size() : members[0].dataset->size();
    if (dataset->size() != first_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          kCreate, ": dataset ", members.size(), " has ", dataset->size(),
          " samples, dataset 0 has ", first_size));
    }
    const auto first_field = static_cast<int>(spec.fields().size());
    const SampleSpec own = dataset->spec();
    TENON_RETURN_IF_ERROR(own.status());
    for (const SampleSpec::Field& field : own.fields()) {
      if (field.kind == FieldKind::kInput || field.kind == FieldKind::kOutput) {
        return absl::InvalidArgumentError(absl::StrCat(
            kCreate, ": dataset ", members.size(), " has field '", field.name,
            "' for its own Collate(); a stack has none"));
      }
      spec.Add(field);
    }
    members.push_back({.dataset = std::move(dataset),
                       .first_field = first_field,
                       .fields = static_cast<int>(own.fields().size())});
  }
  TENON_RETURN_IF_ERROR(spec.status());
  return absl::WrapUnique(
      new StackDataset(std::move(members), std::move(spec)));
}

absl::Status StackDataset::Get(int64_t index, SampleRandom& random,
                               Sample& sample) {
  for (const Member& member : members_) {
    Sample part = sample.WithFields(member.first_field, member.fields);
    TENON_RETURN_IF_ERROR(member.dataset->Get(index, random, part));
  }
  return absl::OkStatus();
}

bool StackDataset::thread_safe() const {
  return std::all_of(
      members_.begin(), members_.end(),
      [](const Member& member) { return member.dataset->thread_safe(); });
}

}  // namespace tenon::loader
