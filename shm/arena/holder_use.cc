// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/holder_use.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/shm/base/size_text.h"

namespace tenon {

void SortByBytes(std::vector<HolderUse>& holders) {
  std::stable_sort(
      holders.begin(), holders.end(),
      [](const HolderUse& a, const HolderUse& b) { return a.bytes > b.bytes; });
}

std::string DescribeHolders(const std::vector<HolderUse>& holders,
                            size_t count) {
  if (holders.empty()) return "no process";
  std::string text;
  const size_t shown = std::min(count, holders.size());
  for (size_t i = 0; i < shown; ++i) {
    const HolderUse& holder = holders[i];
    absl::StrAppend(&text, i == 0 ? "" : "; ", "pid ", holder.pid, " '",
                    holder.name, "' (", holder.state, ") ", holder.blocks,
                    " blocks, ", SizeText(holder.bytes), ", oldest ",
                    absl::FormatDuration(
                        absl::Trunc(holder.oldest, absl::Milliseconds(1))));
    if (holder.moved > 0) {
      absl::StrAppend(&text, ", claimed and released during ", holder.moved,
                      " tests");
    }
  }
  if (shown < holders.size()) {
    absl::StrAppend(&text, "; and ", holders.size() - shown, " more");
  }
  return text;
}

}  // namespace tenon
