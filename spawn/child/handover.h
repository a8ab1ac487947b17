// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Handover: how what a child needs gets to it over the control channel.
//
//   parent                                        child
//   SendFirst()  start message, parent's pidfd,
//                argument, first descriptors
//   (starts the program)                          ReceiveFirst()
//   (opens its pidfd)
//   SendRest()   go; more descriptors, if any     ReceiveRest()
//
// The first message is in the channel before the child exists. So the child
// never waits for its parent before it has the pidfd that tells it of the
// parent's death, and a parent that dies at any moment leaves no child behind.
//
// The rest is at least one message, be it empty: until then the child does not
// run its entry point. Otherwise a child that is quick could have ended, and
// where SIGCHLD is ignored its number be another's, before its pidfd is open.

#ifndef TENON_SPAWN_CHILD_HANDOVER_H_
#define TENON_SPAWN_CHILD_HANDOVER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/pid_fd.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/spawn/child/start_message.h"

namespace tenon::spawn {

// The most processes, beside its parent, with which a child ends.
inline constexpr size_t kMaxAncestors = 16;

// How many of the user's descriptors go with the first message; the parent's
// pidfd, the ancestors', the argument and the crash record need a place each.
inline constexpr size_t kFdsInFirstMessage =
    Channel::kMaxFds - 3 - kMaxAncestors;

// How long it is waited for others to take what they were sent.
inline constexpr absl::Duration kInFlightPatience = absl::Seconds(10);

// What Tenon itself hands over; borrowed.
struct HouseFds {
  // At most kMaxAncestors pidfds.
  std::vector<int> ancestors;
  // A memfd; -1 for none.
  int crash_record = -1;
};

// The argument of all children of a start. A short one travels in each start
// message; a longer one is stored once, in a sealed memfd that all of them map.
// Ownership: borrows the text, and owns the memfd.
// Threads: thread-compatible.
class SharedArgument {
 public:
  static constexpr size_t kMaxShort = 4096;

  // Errors: kResourceExhausted at a limit of descriptors or memory, for a long
  // one.
  static absl::StatusOr<SharedArgument> Create(absl::string_view argument);

  // Empty for a long one.
  absl::string_view short_text() const { return stored_ ? "" : text_; }
  // Null for a short one.
  const Segment* stored() const { return stored_ ? &*stored_ : nullptr; }

 private:
  explicit SharedArgument(absl::string_view text) : text_(text) {}

  absl::string_view text_;
  std::optional<Segment> stored_;
};

// What a child has received.
struct Handover {
  StartMessage start;
  PidFd parent;
  std::vector<PidFd> ancestors;
  UniqueFd crash_record;
  // A short argument; a long one is mapped.
  std::string argument;
  ReadOnlyMapping mapped_argument;
  std::vector<UniqueFd> fds;
};

// Parent: sends the first message. All of `start` that announces what comes
// with it is filled in. `fds` stay the caller's, here and in SendRest(). Blocks
// for `patience` at most, while this user has too many descriptors in flight:
// other children are about to take theirs. Errors: kResourceExhausted, naming
// the limit; kInvalidArgument if the entry's name is too long or a descriptor
// is not open.
absl::Status SendFirst(Channel& control, StartMessage start,
                       const SharedArgument& argument,
                       absl::Span<const int> fds, const HouseFds& house = {},
                       absl::Duration patience = kInFlightPatience);

// Parent: lets the child go, with those of `fds` that did not go with the first
// message. Blocks for 30 seconds at most, while the child does not take them.
// Errors: kUnavailable if `child` ended before; otherwise as SendFirst().
absl::Status SendRest(Channel& control, const PidFd& child,
                      absl::Span<const int> fds);

// Child: receives the first message, which is there already; never blocks.
// Errors: kDataLoss if it is not as above; kDeadlineExceeded or kUnavailable if
// there is none; kResourceExhausted at a limit of descriptors or memory.
absl::StatusOr<Handover> ReceiveFirst(Channel& control);

// Child: waits until it may go, and receives what is missing in
// `handover.fds`. Blocks until the parent has sent it or its end is closed.
// Errors: kUnavailable if it was closed before; otherwise as ReceiveFirst().
absl::Status ReceiveRest(Channel& control, Handover& handover);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_HANDOVER_H_
