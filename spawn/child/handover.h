// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Handover: how a child receives its arguments over the control channel.
//
//   parent                                        child
//   SendFirst()  start message, parent's pidfd,
//                argument, first descriptors
//   (starts the program)                          ReceiveFirst()
//   (opens its pidfd)
//   SendRest()   go; more descriptors, if any     ReceiveRest()
//
// The first message is in the channel before the child exists. So the child
// never waits for its parent without the parent's pidfd, and a parent that dies
// at any moment leaves no child behind.
//
// The rest is at least one message, possibly empty: the child does not run its
// entry point before it. Otherwise a quick child could have ended before its
// pidfd is open, and, where SIGCHLD is ignored, its pid could have been reused.

#ifndef TENON_SPAWN_CHILD_HANDOVER_H_
#define TENON_SPAWN_CHILD_HANDOVER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/spawn/child/start_message.h"

namespace tenon::spawn {

// Maximum number of ancestors, besides its parent, whose death ends a child.
inline constexpr size_t kMaxAncestors = 16;

// How many of the user's descriptors are sent with the first message; the rest
// of it are the parent's pidfd, the ancestors', the argument and the crash
// record.
inline constexpr size_t kFdsInFirstMessage =
    Channel::kMaxFds - 3 - kMaxAncestors;

// How long a sender waits for other processes to receive descriptors in flight.
inline constexpr absl::Duration kInFlightPatience = absl::Seconds(10);

// Descriptors that Tenon itself hands over; borrowed.
struct HouseFds {
  // At most kMaxAncestors pidfds.
  std::vector<int> ancestors;
  // A memfd; -1 for none.
  int crash_record = -1;
};

// The argument of all children of a start, and their parent's pidfd. A short
// argument is part of each start message; a longer one is stored once, in a
// sealed memfd that all children map.
// Ownership: borrows the text, and owns the memfd and the pidfd.
// Threads: thread-compatible.
class SharedArgument {
 public:
  static constexpr size_t kMaxShort = 4096;

  // Errors: kResourceExhausted at a limit of descriptors or memory.
  static absl::StatusOr<SharedArgument> Create(absl::string_view argument);

  // This process. Opened here: a child that opened its parent by pid could get
  // a later process with the same pid.
  const PidFd& parent() const { return parent_; }

  // Empty for a long argument.
  absl::string_view short_text() const { return stored_ ? "" : text_; }
  // Null for a short argument.
  const Segment* stored() const { return stored_ ? &*stored_ : nullptr; }

 private:
  SharedArgument(PidFd parent, absl::string_view text)
      : parent_(std::move(parent)), text_(text) {}

  PidFd parent_;
  absl::string_view text_;
  std::optional<Segment> stored_;
};

// The received messages of a child.
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

// Parent: sends the first message. Fills in the fields of `start` that announce
// its attachments. `fds` stay the caller's, here and in SendRest(). Blocks for
// `patience` at most, while this user has too many descriptors in flight: other
// children are about to receive theirs.
// Errors: kResourceExhausted, naming the limit; kInvalidArgument if the entry's
// name is too long or a descriptor is not open.
absl::Status SendFirst(Channel& control, StartMessage start,
                       const SharedArgument& argument,
                       absl::Span<const int> fds, const HouseFds& house = {},
                       absl::Duration patience = kInFlightPatience);

// Parent: resumes the child, and sends the `fds` that were not in the first
// message. Blocks for 30 seconds at most, while the child does not receive
// them. Errors: kUnavailable if `child` ended before; otherwise as SendFirst().
absl::Status SendRest(Channel& control, const PidFd& child,
                      absl::Span<const int> fds);

// Child: receives the first message, which has already arrived; never blocks.
// Errors: kDataLoss if it is malformed; kDeadlineExceeded or kUnavailable if
// there is none; kResourceExhausted at a limit of descriptors or memory.
absl::StatusOr<Handover> ReceiveFirst(Channel& control);

// Child: waits until it is resumed, and receives the remaining descriptors into
// `handover.fds`. Blocks until the parent has sent them or closed its end.
// Errors: kUnavailable if the parent closed its end before; otherwise as
// ReceiveFirst().
absl::Status ReceiveRest(Channel& control, Handover& handover);

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_CHILD_HANDOVER_H_
