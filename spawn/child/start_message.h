// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StartMessage: a parent's first message to a child.

#ifndef TENON_SPAWN_CHILD_START_MESSAGE_H_
#define TENON_SPAWN_CHILD_START_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/settings/child_settings.h"

namespace tenon::spawn {

// A value. The argument and descriptors that it announces are sent beside it;
// see handover.h.
struct StartMessage {
  std::string entry;
  int32_t index = 0;
  bool ignore_interrupt = false;
  SharingStrategy sharing_strategy = SharingStrategy::kFileDescriptor;
  ChildSettings settings;
  // From SaveInheritedSettings().
  std::string inherited;
  // Processes, besides the parent, whose death ends the child.
  uint32_t ancestor_count = 0;
  // Whether a memfd for the record of a crash comes with it.
  bool has_crash_record = false;
  // A short argument.
  std::string argument;
  // The size of a long argument, which comes as a segment; else 0.
  uint64_t argument_bytes = 0;
  uint64_t fd_count = 0;
};

std::string EncodeStartMessage(const StartMessage& message);

// The reverse. The bytes may be anything.
// Errors: kDataLoss, naming the malformed field.
absl::StatusOr<StartMessage> DecodeStartMessage(absl::string_view bytes);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_START_MESSAGE_H_
