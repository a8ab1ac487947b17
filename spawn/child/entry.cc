// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/entry.h"

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/name_registry.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {
namespace {

struct Entry {
  EntryFunction function;
  std::optional<std::string> signature;
  void (*key)() = nullptr;
};

constinit NameRegistry<Entry> entries("TENON_SPAWN_ENTRY");

bool Register(absl::string_view name, Entry entry) {
  TENON_CHECK(
      entry.function != nullptr,
      absl::StrCat("TENON_SPAWN_ENTRY(\"", name, "\"): the function is null"));
  entries.Add(name, std::move(entry));
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
  const std::optional<Entry> entry = entries.Find(name);
  return entry ? entry->signature : std::nullopt;
}

std::optional<std::string> EntryNameOf(void (*key)()) {
  if (key == nullptr) return std::nullopt;
  return entries.FindName([&](const Entry& entry) { return entry.key == key; });
}

EntryFunction FindEntry(absl::string_view name) {
  const std::optional<Entry> entry = entries.Find(name);
  return entry ? entry->function : nullptr;
}

std::vector<std::string> EntryNames() { return entries.Names(); }

}  // namespace tenon::spawn
