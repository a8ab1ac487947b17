// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StartMessage: what a parent tells a child before its entry point runs.

#ifndef TENON_SPAWN_CHILD_START_MESSAGE_H_
#define TENON_SPAWN_CHILD_START_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/settings/child_settings.h"

namespace tenon::spawn {

// A value. What it announces (the argument, descriptors) travels beside it; see
// handover.h.
struct StartMessage {
  std::string entry;
  int32_t index = 0;
  bool ignore_interrupt = false;
  SharingStrategy sharing_strategy = SharingStrategy::kFileDescriptor;
  ChildSettings settings;
  // Of SaveInheritedSettings().
  std::string inherited;
  // Processes, beside the parent, with which the child ends.
  uint32_t ancestor_count = 0;
  // A memfd for the record of a crash comes with it.
  bool has_crash_record = false;
  // A short argument itself.
  std::string argument;
  // The size of a long one, which comes as a segment; else 0.
  uint64_t argument_bytes = 0;
  uint64_t fd_count = 0;
};

std::string EncodeStartMessage(const StartMessage& message);

// The reverse. The bytes may be anything.
// Errors: kDataLoss saying what is wrong with them.
absl::StatusOr<StartMessage> DecodeStartMessage(absl::string_view bytes);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_START_MESSAGE_H_
