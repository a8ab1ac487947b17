// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Inherited settings: run-time settings of a program that its children inherit:
// the level of a log library, flags, a random seed.
//
//   std::string SaveLogFlags() { return absl::StrCat(FLAGS_v); }
//   absl::Status SetLogFlags(absl::string_view saved) {
//     return absl::SimpleAtoi(saved, &FLAGS_v)
//                ? absl::OkStatus() : absl::InvalidArgumentError(saved);
//   }
//   TENON_SPAWN_INHERIT("log flags", SaveLogFlags, SetLogFlags);
//
// At each start the parent saves them, and the child applies them before its
// entry point runs, with every start method. So spawn transports settings of
// libraries that it does not know.

#ifndef TENON_SPAWN_SETTINGS_INHERITED_SETTING_H_
#define TENON_SPAWN_SETTINGS_INHERITED_SETTING_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

// Called on each thread that starts a child, possibly concurrently; must not
// throw, nor start children. Any bytes; at most 64 KiB for all settings and the
// entry's name together, beyond which Process::Start() fails with
// kInvalidArgument.
using SaveSetting = std::string (*)();

// Called once, on the child's main thread, with the saved bytes. An error ends
// the child, and Join() returns it with the setting's name.
using ApplySetting = absl::Status (*)(absl::string_view saved);

// Registers a setting; called before main() by TENON_SPAWN_INHERIT. A second
// setting of the same name ends the program with a message.
bool RegisterInheritedSetting(absl::string_view name, SaveSetting save,
                              ApplySetting apply);

// For both halves of a start: saves all settings, and applies them. A setting
// that is not registered (yet) in the child is skipped. The bytes may be
// anything. Errors: kDataLoss; those of a setting, behind its name.
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
