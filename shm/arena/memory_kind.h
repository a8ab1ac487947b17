// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// MemoryKind: how this process opens segments of arenas whose blocks are not in
// memory of the CPU. A library of such memory registers its kind, and then all
// that receives arenas can receive its: importers, queues, rings, arguments of
// children. The owner's side is block_store.h.
//
//   TENON_RETURN_IF_ERROR(RegisterMemoryKind(kMyKind));
//
// For libraries of other memory; users of arenas never see it.

#ifndef TENON_SHM_ARENA_MEMORY_KIND_H_
#define TENON_SHM_ARENA_MEMORY_KIND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// What the table of an arena and an offer say of a segment.
struct OfferedSegment {
  DeviceIdentity identity = {};  // As the arena's table has it.
  // Of its blocks, as listed: memory may have more, for whole units of its
  // kind, and not less.
  uint64_t bytes = 0;
  // Whether holders may write. If not, memory is mapped read-only.
  bool writable = false;
  // Either a descriptor, which is invalid if the segment has a name. It is of
  // an unknown type: unless its type has been checked, it is closed by
  // CloseReceived() (received_fd.h).
  UniqueFd fd;
  std::string name;
};

// Ownership: a constant of the program.
// Threads: thread-safe.
// Processes: registered in each process; a forked child inherits it.
// Trust: an offer is untrusted. Only its descriptors prove anything.
class MemoryKind {
 public:
  MemoryKind(const MemoryKind&) = delete;
  MemoryKind& operator=(const MemoryKind&) = delete;

  MemoryKindId id() const { return id_; }

  // The device of that identity, as DLPack names it in this process. Called
  // once for each attachment to an arena, before anything is opened.
  // Errors: kFailedPrecondition if this process does not have it;
  // kResourceExhausted if another try may succeed.
  virtual absl::StatusOr<DLDevice> DeviceOf(
      const DeviceIdentity& identity) const = 0;

  // Takes over an offered segment. The arena then compares its size with its
  // limits, and its identity with the listed one, before it calls Map().
  // Errors: kInvalidArgument if the descriptor is not memory of this kind;
  // kFailedPrecondition; kResourceExhausted naming the limit.
  virtual absl::StatusOr<std::unique_ptr<StoredSegment>> Open(
      OfferedSegment offered) const = 0;

 protected:
  explicit constexpr MemoryKind(MemoryKindId id) : id_(id) {}
  ~MemoryKind() = default;

 private:
  const MemoryKindId id_;
};

// From now on this process accepts arenas of that kind. No effect if it was
// registered before. `kind` lives until the process ends. Thread-safe.
// Errors: kInvalidArgument for a kind that has no number below kMaxMemoryKinds,
// or is the CPU's; kAlreadyExists if another object has that number.
absl::Status RegisterMemoryKind(const MemoryKind& kind);

// The kind of an arena of that name. Thread-safe.
// Errors: kFailedPrecondition naming the arena, the kind and the target to
// link, if it is not registered.
absl::StatusOr<const MemoryKind*> FindMemoryKind(MemoryKindId id,
                                                 absl::string_view arena);

}  // namespace tenon

#endif  // TENON_SHM_ARENA_MEMORY_KIND_H_
