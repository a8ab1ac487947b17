// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/pool_function.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tenon/shm/base/name_registry.h"

namespace tenon::spawn {
namespace {

constinit NameRegistry<PoolFunctionRecord> functions("TENON_POOL_FUNCTION");

}  // namespace

bool RegisterPoolFunction(absl::string_view name, PoolFunctionRecord record) {
  functions.Add(name, std::move(record));
  return true;
}

std::optional<PoolFunctionRecord> FindPoolFunction(absl::string_view name) {
  return functions.Find(name);
}

std::optional<std::string> PoolFunctionNameOf(void (*key)()) {
  return functions.FindName(
      [&](const PoolFunctionRecord& record) { return record.key == key; });
}

std::vector<std::string> PoolFunctionNames() { return functions.Names(); }

}  // namespace tenon::spawn
