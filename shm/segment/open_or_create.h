// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OpenOrCreate: programs that share nothing but a name get the same object, and
// exactly one of them creates it.
//
//   TENON_ASSIGN_OR_RETURN(
//       Value<int64_t> steps,
//       OpenOrCreate([] { return Value<int64_t>::Open("trainer.steps"); },
//                    [] {
//                      return Value<int64_t>::Create(
//                          0, {.name = "trainer.steps"});
//                    }));
//
// For every type with Open() and SegmentOptions::name: Value, Array, Mutex,
// Semaphore, Event, Condition, Barrier, Segment. No other process sees the
// object before its Create() is complete, and an object whose last holder has
// ended, also by SIGKILL, is created anew.

#ifndef TENON_SHM_SEGMENT_OPEN_OR_CREATE_H_
#define TENON_SHM_SEGMENT_OPEN_OR_CREATE_H_

#include "absl/status/status.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Calls `open`, and `create` if there is no such object. Both return the same
// absl::StatusOr. `created`, if not null, is set to whether this process made
// it. Does not wait, except while another process is removing the name.
// Errors: those of `open` and `create`, except kNotFound of the former and
// kAlreadyExists of the latter, which alternate only while other processes
// create and remove the object; kUnavailable if they do so 100 times.
template <typename Open, typename Create>
auto OpenOrCreate(Open&& open, Create&& create, bool* created = nullptr)
    -> decltype(open()) {
  constexpr int kTries = 100;
  if (created != nullptr) *created = false;
  for (int i = 0; i < kTries; ++i) {
    auto opened = open();
    if (!absl::IsNotFound(opened.status())) return opened;
    auto made = create();
    if (absl::IsAlreadyExists(made.status())) continue;
    if (created != nullptr) *created = made.ok();
    return made;
  }
  return absl::UnavailableError(
      "OpenOrCreate(): other processes have created and removed the object 100 "
      "times meanwhile");
}

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_OPEN_OR_CREATE_H_
