// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Event: a flag that processes share and wait for.
//
//   TENON_ASSIGN_OR_RETURN(Event ready, Event::Create());
//   const int fd = ready.fd();  // Send it to a peer:
//   TENON_ASSIGN_OR_RETURN(Event theirs, Event::Adopt(std::move(received)));
//   TENON_RETURN_IF_ERROR(theirs.Wait(Deadline::After(absl::Seconds(2))));

#ifndef TENON_IPC_SYNC_EVENT_H_
#define TENON_IPC_SYNC_EVENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment_options.h"

namespace tenon {

template <typename Layout>
class SyncBlock;

// Ownership: as Value (shm/value/value.h): owns a mapping, the descriptor, and
//   the name, if it made one. A moved-from event is only good to be destroyed
//   or assigned to.
// Threads, processes: any number, of any pid namespaces. In a forked child
//   every call is kFailedPrecondition: send it the descriptor.
// Memory order: a Wait() that Set() ends sees everything written before Set().
// Trust: any process of the group may set or clear it, and write arbitrary
//   bytes: the result is a wrong answer, never a crash; a wait ends by its
//   deadline.
// Failure: the flag is one word, so a killed process has made a call or not. If
//   a process is killed in Set() between setting and waking, a waiter notices
//   within 100 ms.
class Event {
 public:
  // Creates an event that is not set. Errors:
  // Segment::CreateSharedWritable()'s.
  static absl::StatusOr<Event> Create(const SegmentOptions& options = {});
  // Errors: Segment::Adopt()'s and Open()'s; kInvalidArgument if it is not an
  // Event.
  static absl::StatusOr<Event> Adopt(UniqueFd fd);
  static absl::StatusOr<Event> Open(absl::string_view name);

  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;
  ~Event();

  // -1 under kFileSystem: send name().
  int fd() const;
  const std::string& name() const;

  // Sets it, and wakes all current waiters, even if it is cleared at once. No
  // effect if it is set. Does not block. Errors: kFailedPrecondition in a
  // forked child, here and below.
  absl::Status Set() const;
  absl::Status Clear() const;
  absl::StatusOr<bool> IsSet() const;

  // Blocks until it is set, or has been set since the call began. Errors:
  // kDeadlineExceeded.
  absl::Status Wait(Deadline deadline) const;

 private:
  struct Layout;
  using Block = std::unique_ptr<SyncBlock<Layout>>;

  explicit Event(Block block);
  static absl::StatusOr<Event> Wrap(absl::StatusOr<Block> block);

  Block block_;
  Layout* layout_;  // Of `block_`.
};

}  // namespace tenon

#endif  // TENON_IPC_SYNC_EVENT_H_
