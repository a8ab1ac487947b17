// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ChildSettings: settings that a child applies to itself before its entry point
// runs.

#ifndef TENON_SPAWN_SETTINGS_CHILD_SETTINGS_H_
#define TENON_SPAWN_SETTINGS_CHILD_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::spawn {

// As setrlimit(2) takes it: {RLIMIT_AS, 1 << 30, 1 << 30}.
struct ResourceLimit {
  int resource = 0;
  uint64_t soft = 0;
  uint64_t hard = 0;
};

// A value.
struct ChildSettings {
  // Name of the process and its main thread, as `ps` and `top` show it: the
  // first 15 bytes. Empty: that of the program.
  std::string name;
  std::vector<ResourceLimit> limits;
  // The processors it may run on; empty: those of its parent.
  std::vector<int> cpus;
};

std::string EncodeChildSettings(const ChildSettings& settings);

// The reverse. The bytes may be anything. Errors: kDataLoss.
absl::StatusOr<ChildSettings> DecodeChildSettings(absl::string_view bytes);

// Errors: kInvalidArgument for an invalid processor or resource, or a soft
// limit above its hard one.
absl::Status CheckChildSettings(const ChildSettings& settings);

// Applies them to the calling process. Errors: kInvalidArgument if no such
// processor may be used; kPermissionDenied for a hard limit above the current
// one.
absl::Status ApplyChildSettings(const ChildSettings& settings);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SETTINGS_CHILD_SETTINGS_H_
