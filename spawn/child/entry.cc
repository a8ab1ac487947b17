// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/entry.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {
namespace {

struct Entry {
  EntryFunction function;
  std::optional<std::string> signature;
  void (*key)() = nullptr;
};

// The lock is for libraries that are loaded while threads run.
struct Registry {
  std::mutex mutex;
  std::map<std::string, Entry> entries;
};

// Created on first use, in any order of static initialisers; never destroyed.
Registry& TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

[[noreturn]] void DieOfBadEntry(const std::string& name, const char* why) {
  std::fprintf(stderr, "TENON_SPAWN_ENTRY(\"%s\"): %s\n", name.c_str(), why);
  std::abort();
}

bool Register(absl::string_view name, Entry entry) {
  std::string key(name);
  if (entry.function == nullptr) DieOfBadEntry(key, "the function is null");
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  if (!registry.entries.emplace(key, std::move(entry)).second) {
    DieOfBadEntry(key, "this name is already registered");
  }
  return true;
}

}  // namespace

const std::string& Child::argument() {
  if (argument_.empty()) argument_ = std::string(argument_view());
  return argument_;
}

absl::string_view Child::argument_view() const {
  if (mapped_.size_bytes() == 0) return argument_;
  return absl::string_view(reinterpret_cast<const char*>(mapped_.data()),
                           mapped_.size_bytes());
}

UniqueFd Child::TakeFd(size_t i) {
  return i < fds_.size() ? std::move(fds_[i]) : UniqueFd();
}

bool RegisterEntry(absl::string_view name, EntryFunction function) {
  return Register(name, {.function = function});
}

bool RegisterTypedEntry(absl::string_view name, EntryFunction function,
                        std::string signature, void (*key)()) {
  return Register(
      name,
      {.function = function, .signature = std::move(signature), .key = key});
}

std::optional<std::string> EntrySignature(absl::string_view name) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.entries.find(std::string(name));
  if (found == registry.entries.end()) return std::nullopt;
  return found->second.signature;
}

std::optional<std::string> EntryNameOf(void (*key)()) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& [name, entry] : registry.entries) {
    if (key != nullptr && entry.key == key) return name;
  }
  return std::nullopt;
}

EntryFunction FindEntry(absl::string_view name) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  const auto found = registry.entries.find(std::string(name));
  return found == registry.entries.end() ? nullptr : found->second.function;
}

std::vector<std::string> EntryNames() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<std::string> names;
  for (const auto& entry : registry.entries) names.push_back(entry.first);
  return names;
}

}  // namespace tenon::spawn
