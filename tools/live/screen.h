// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ShowOnScreen: text that changes, on the whole terminal.

#ifndef TENON_TOOLS_LIVE_SCREEN_H_
#define TENON_TOOLS_LIVE_SCREEN_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tenon::tools {

// Calls `text` and shows its lines, again after each `pause`, until q is typed.
// Arrow keys and pages scroll. Lines are cut at the edge; those that do not
// begin with a space are bold. The terminal is restored, also by Ctrl-C.
// Errors: those of `text`; kFailedPrecondition if stdout is not a terminal that
// terminfo knows.
absl::Status ShowOnScreen(
    const std::function<absl::StatusOr<std::string>()>& text,
    absl::Duration pause);

}  // namespace tenon::tools

#endif  // TENON_TOOLS_LIVE_SCREEN_H_
