// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/settings/start_method.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace tenon::spawn {

std::vector<StartMethod> AllStartMethods() {
  return {StartMethod::kSpawn, StartMethod::kFork, StartMethod::kForkServer};
}

absl::string_view StartMethodName(StartMethod method) {
  switch (method) {
    case StartMethod::kSpawn:
      return "spawn";
    case StartMethod::kFork:
      return "fork";
    case StartMethod::kForkServer:
      return "forkserver";
  }
  return "(unknown)";
}

absl::StatusOr<StartMethod> ParseStartMethod(absl::string_view name) {
  for (const StartMethod method : AllStartMethods()) {
    if (name == StartMethodName(method)) return method;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown start method '", name, "'; want one of: ",
      absl::StrJoin(AllStartMethods(), ", ",
                    [](std::string* out, StartMethod method) {
                      absl::StrAppend(out, StartMethodName(method));
                    })));
}

}  // namespace tenon::spawn
