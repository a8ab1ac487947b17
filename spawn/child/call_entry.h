// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Calls an entry point; captures its status or exception as a value.

#ifndef TENON_SPAWN_CHILD_CALL_ENTRY_H_
#define TENON_SPAWN_CHILD_CALL_ENTRY_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "tenon/spawn/child/entry.h"

namespace tenon::spawn {

struct EntryOutcome {
  absl::Status status;
  // Where an exception was thrown; empty if that was not recorded.
  std::string stack;
};

// Where the exception that is being handled was thrown, one line per frame. Set
// by //spawn/child:throw_stack if that is linked, before main(); else null.
using ThrowStack = std::string (*)();
void SetThrowStack(ThrowStack function);
// Its result; empty if it is null.
std::string CaughtStack();

// Runs `body`, which may throw anything; an exception becomes kInternal with
// its type and its what(), or its text if text was thrown. If the unwinding is
// not a C++ exception (pthread_exit(), pthread_cancel()), calls `on_unwinding`,
// which must not return.
EntryOutcome CatchAll(const std::function<absl::Status()>& body,
                      const std::function<void(EntryOutcome)>& on_unwinding);

EntryOutcome CallEntry(EntryFunction function, Child& child,
                       const std::function<void(EntryOutcome)>& on_unwinding);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_CALL_ENTRY_H_
