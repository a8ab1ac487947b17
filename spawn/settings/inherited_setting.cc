// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/settings/inherited_setting.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/name_registry.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::spawn {
namespace {

struct Setting {
  SaveSetting save;
  ApplySetting apply;
};

constinit NameRegistry<Setting> settings("TENON_SPAWN_INHERIT");

}  // namespace

bool RegisterInheritedSetting(absl::string_view name, SaveSetting save,
                              ApplySetting apply) {
  settings.Add(name, {save, apply});
  return true;
}

std::string SaveInheritedSettings() {
  const auto all = settings.All();
  if (all.empty()) return "";
  ArchiveWriter writer;
  writer.Put(static_cast<uint32_t>(all.size()));
  for (const auto& [name, setting] : all) {
    writer.PutString(name);
    writer.PutString(setting.save());
  }
  return std::move(writer).bytes();
}

absl::Status ApplyInheritedSettings(absl::string_view saved) {
  if (saved.empty()) return absl::OkStatus();
  ArchiveReader reader(saved);
  TENON_ASSIGN_OR_RETURN(const auto count, reader.Get<uint32_t>());
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(const std::string name, reader.GetString());
    TENON_ASSIGN_OR_RETURN(const std::string value, reader.GetString());
    const std::optional<Setting> found = settings.Find(name);
    if (!found) continue;
    const absl::Status applied = found->apply(value);
    if (applied.ok()) continue;
    return absl::Status(
        applied.code(),
        absl::StrCat("inherited setting '", name, "': ", applied.message()));
  }
  return reader.Finish();
}

}  // namespace tenon::spawn
