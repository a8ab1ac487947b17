// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/settings/inherited_setting.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::spawn {
namespace {

struct Setting {
  SaveSetting save;
  ApplySetting apply;
};

using Settings = std::map<std::string, Setting>;

// The lock is for libraries that are loaded while threads run.
struct Registry {
  std::mutex mutex;
  Settings settings;
};

// Created on first use; never destroyed.
Registry& TheRegistry() {
  static Registry& registry = *new Registry;
  return registry;
}

// A copy, as the functions are called without the lock.
Settings AllSettings() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  return registry.settings;
}

}  // namespace

bool RegisterInheritedSetting(absl::string_view name, SaveSetting save,
                              ApplySetting apply) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::string key(name);
  if (registry.settings.emplace(key, Setting{save, apply}).second) return true;
  std::fprintf(stderr,
               "TENON_SPAWN_INHERIT(\"%s\"): this name is already registered\n",
               key.c_str());
  std::abort();
}

std::string SaveInheritedSettings() {
  const Settings settings = AllSettings();
  if (settings.empty()) return "";
  ArchiveWriter writer;
  writer.Put(static_cast<uint32_t>(settings.size()));
  for (const auto& [name, setting] : settings) {
    writer.PutString(name);
    writer.PutString(setting.save());
  }
  return std::move(writer).bytes();
}

absl::Status ApplyInheritedSettings(absl::string_view saved) {
  if (saved.empty()) return absl::OkStatus();
  const Settings settings = AllSettings();
  ArchiveReader reader(saved);
  TENON_ASSIGN_OR_RETURN(const auto count, reader.Get<uint32_t>());
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(const std::string name, reader.GetString());
    TENON_ASSIGN_OR_RETURN(const std::string value, reader.GetString());
    const auto found = settings.find(name);
    if (found == settings.end()) continue;
    const absl::Status applied = found->second.apply(value);
    if (applied.ok()) continue;
    return absl::Status(
        applied.code(),
        absl::StrCat("inherited setting '", name, "': ", applied.message()));
  }
  return reader.Finish();
}

}  // namespace tenon::spawn
