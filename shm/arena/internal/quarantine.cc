// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/internal/quarantine.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/arena/internal/segment_table.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/size_text.h"

namespace tenon {
namespace {

Deadline Later(Deadline a, Deadline b) {
  return a.Remaining() < b.Remaining() ? b : a;
}

}  // namespace

void Quarantine::Add(uint32_t block) {
  last_ = Deadline::After(length_);
  until_.insert_or_assign(block, last_);
}

Deadline Quarantine::Until(uint32_t block) const {
  const auto found = until_.find(block);
  if (found == until_.end()) return all_until_;
  return Later(found->second, all_until_);
}

void Quarantine::HoldBack(size_t size_class, std::vector<OwnedBlock*>& blocks) {
  if (is_off()) return;
  if (!until_.empty() && last_.has_passed()) until_.clear();
  // One look at the clock, where no process has ended lately.
  if (until_.empty() && all_until_.has_passed()) return;
  std::erase_if(blocks, [&](OwnedBlock* block) {
    const Deadline until = Until(block->number);
    if (until.has_passed()) return false;
    kept_[size_class].push_back({block, until});
    return true;
  });
}

std::vector<OwnedBlock*> Quarantine::Return(size_t size_class) {
  std::vector<OwnedBlock*> returned;
  std::erase_if(kept_[size_class], [&](const Kept& kept) {
    if (!kept.until.has_passed()) return false;
    returned.push_back(kept.block);
    return true;
  });
  return returned;
}

Quarantine::Sum Quarantine::HeldBack() const {
  Sum held;
  for (const auto& of_class : kept_) {
    for (const Kept& kept : of_class) {
      if (kept.until.has_passed()) continue;
      ++held.blocks;
      held.bytes += kept.block->size();
    }
  }
  return held;
}

std::string Quarantine::Describe() const {
  const Sum held = HeldBack();
  if (held.blocks == 0) return "";
  return absl::StrCat(held.blocks, " blocks, ", SizeText(held.bytes),
                      ", are held back for ", absl::FormatDuration(length_),
                      " after the end of a process that held them");
}

}  // namespace tenon
