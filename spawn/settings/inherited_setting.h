// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Inherited settings: what a program has set at run time, and its children are
// to have set as well: the level of a log library, flags, a random seed.
//
//   std::string SaveLogFlags() { return absl::StrCat(FLAGS_v); }
//   absl::Status SetLogFlags(absl::string_view saved) {
//     return absl::SimpleAtoi(saved, &FLAGS_v)
//                ? absl::OkStatus() : absl::InvalidArgumentError(saved);
//   }
//   TENON_SPAWN_INHERIT("log flags", SaveLogFlags, SetLogFlags);
//
// At each start the parent saves, and the child sets before its entry point
// runs, whatever its start method. So spawn carries settings of libraries that
// it does not know.

#ifndef TENON_SPAWN_SETTINGS_INHERITED_SETTING_H_
#define TENON_SPAWN_SETTINGS_INHERITED_SETTING_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon::spawn {

// Called on each thread that starts a child, several at once; must not throw,
// nor start children. Any bytes; with the entry's name at most 64 KiB for all
// settings together, beyond which Process::Start() says kInvalidArgument.
using SaveSetting = std::string (*)();

// Called once, on the child's main thread, with what was saved. An error ends
// the child, and Join() returns it with the setting's name.
using ApplySetting = absl::Status (*)(absl::string_view saved);

// Registers a setting; done before main() by TENON_SPAWN_INHERIT. A second one
// of the same name ends the program with a message.
bool RegisterInheritedSetting(absl::string_view name, SaveSetting save,
                              ApplySetting apply);

// For both halves of a start: what all settings save, and the reverse. A
// setting that is not registered (yet) in the child is left out. The bytes may
// be anything. Errors: kDataLoss; those of a setting, behind its name.
std::string SaveInheritedSettings();
absl::Status ApplyInheritedSettings(absl::string_view saved);

}  // namespace tenon::spawn

// At namespace scope in a .cc file. In a library, the target needs
// `alwayslink = True`, or the linker may drop the file.
#define TENON_SPAWN_INHERIT(name, save, apply) \
  TENON_SPAWN_INHERIT_(name, save, apply, __COUNTER__)
#define TENON_SPAWN_INHERIT_(name, save, apply, n) \
  TENON_SPAWN_INHERIT_INNER_(name, save, apply, n)
#define TENON_SPAWN_INHERIT_INNER_(name, save, apply, n)       \
  [[maybe_unused]] static const bool tenon_spawn_inherit_##n = \
      ::tenon::spawn::RegisterInheritedSetting(name, save, apply)

#endif  // TENON_SPAWN_SETTINGS_INHERITED_SETTING_H_
