// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/pool_function.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace tenon::spawn {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, PoolFunctionRecord> functions;
};

// Created on first use; never destroyed.
Registry& TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

}  // namespace

bool RegisterPoolFunction(absl::string_view name, PoolFunctionRecord record) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::string key(name);
  if (registry.functions.emplace(key, std::move(record)).second) return true;
  std::fprintf(stderr,
               "TENON_POOL_FUNCTION(%s): this name is already registered\n",
               key.c_str());
  std::abort();
}

std::optional<PoolFunctionRecord> FindPoolFunction(absl::string_view name) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.functions.find(std::string(name));
  if (found == registry.functions.end()) return std::nullopt;
  return found->second;
}

std::optional<std::string> PoolFunctionNameOf(void (*key)()) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& [name, record] : registry.functions) {
    if (record.key == key) return name;
  }
  return std::nullopt;
}

std::vector<std::string> PoolFunctionNames() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& function : registry.functions) {
    names.push_back(function.first);
  }
  return names;
}

}  // namespace tenon::spawn
