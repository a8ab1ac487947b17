// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/column.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/poll_all.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/received_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/ledger/column_layout.h"
#include "tenon/shm/ledger/inbox_owner.h"
#include "tenon/shm/ledger/range_allocator.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/control_memory.h"

namespace tenon {
namespace {

constexpr uint64_t kAlignment = ColumnLayout::kCellsAlignment;

uint64_t RoundUp(uint64_t cells) {
  return (cells + kAlignment - 1) / kAlignment * kAlignment;
}

// Writes a word that other processes may be reading.
void Publish(uint64_t& word, uint64_t value) {
  std::atomic_ref<uint64_t>(word).store(value, std::memory_order_release);
}

ColumnDirectoryEntry* Directory(const ControlMemory& memory) {
  return reinterpret_cast<ColumnDirectoryEntry*>(memory.data() +
                                                 sizeof(ColumnHeader));
}

void WriteHeader(const ControlMemory& memory, const RandomId& id) {
  auto* header = reinterpret_cast<ColumnHeader*>(memory.data());
  header->version = ColumnLayout::Version();
  header->id = id;
  header->pid = static_cast<uint64_t>(getpid());
  strncpy(header->name, program_invocation_short_name,
          sizeof(header->name) - 1);
  Publish(header->magic, ColumnLayout::kMagic);
}

struct ThisProcess {
  ThreadMutex mutex;
  std::weak_ptr<Column> column ABSL_GUARDED_BY(mutex);
};

constinit PerProcess<ThisProcess> this_process;

}  // namespace

absl::StatusOr<std::shared_ptr<Column>> Column::OfThisProcess() {
  ThisProcess& process = this_process.Get();
  const ThreadLock lock(&process.mutex);
  if (std::shared_ptr<Column> column = process.column.lock()) return column;
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Column> column, Create());
  process.column = column;
  return column;
}

absl::StatusOr<std::shared_ptr<Column>> Column::Create() {
  TENON_ASSIGN_OR_RETURN(const RandomId id, RandomId::New());
  TENON_ASSIGN_OR_RETURN(
      ControlMemory memory,
      ControlMemory::Create(ColumnLayout::kBytes, ColumnLayout::kLabel));
  TENON_RETURN_IF_ERROR(memory.Reserve({0, ColumnLayout::kCellsAt}));
  WriteHeader(memory, id);
  TENON_CRASH_POINT("column.created");
  return std::shared_ptr<Column>(new Column(id, std::move(memory)));
}

Column::Column(RandomId id, ControlMemory memory)
    : id_(id),
      memory_(std::move(memory)),
      free_cells_(ColumnLayout::kCells),
      entry_used_(ColumnLayout::kMaxArenas) {}

absl::StatusOr<ColumnRange> Column::Enter(const RandomId& arena,
                                          uint64_t blocks) {
  const ThreadLock lock(&mutex_);
  FreeDroppedLocked();
  const auto entry = std::find(entry_used_.begin(), entry_used_.end(), false);
  if (entry == entry_used_.end()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this process is attached to ", entry_used_.size(),
                     " arenas already, the limit of its column of the ledger"));
  }
  const auto first = blocks > ColumnLayout::kCells
                         ? std::nullopt
                         : free_cells_.Allocate(RoundUp(blocks));
  if (!first.has_value()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this process's column of the ledger has no ", blocks,
                     " free cells for another arena; it has ",
                     ColumnLayout::kCells, " cells for all arenas"));
  }
  *entry = true;
  ColumnRange range = {
      .first_cell = *first,
      .count = blocks,
      .directory_entry = static_cast<uint32_t>(entry - entry_used_.begin()),
      .cells = reinterpret_cast<SharedWord<uint64_t>*>(
          memory_.data() + ColumnLayout::CellAt(*first))};
  ColumnDirectoryEntry& listed = Directory(memory_)[range.directory_entry];
  // A reader that sees a new number sees that the earlier ones were not valid.
  Publish(listed.arena.low, arena.low);
  Publish(listed.arena.high, arena.high);
  Publish(listed.first_cell, range.first_cell);
  Publish(listed.cells, range.count);
  Publish(listed.used, 1);
  TENON_CRASH_POINT("column.entered");
  return range;
}

absl::Status Column::Reserve(const ColumnRange& range, uint64_t first,
                             uint64_t count) const {
  return memory_.Reserve({ColumnLayout::CellAt(range.first_cell + first),
                          static_cast<size_t>(count) * sizeof(uint64_t)});
}

void Column::Leave(const ColumnRange& range, UniqueFd lease, UniqueFd inbox,
                   std::shared_ptr<const void> until_free) {
  const ThreadLock lock(&mutex_);
  TENON_CRASH_POINT("column.leaving");
  Publish(Directory(memory_)[range.directory_entry].used, 0);
  if (lease.valid()) {
    // Notifies the owner.
    shutdown(lease.get(), SHUT_WR);
    TENON_CRASH_POINT("column.left");
    left_.push_back({.range = range,
                     .lease = std::move(lease),
                     .inbox = std::move(inbox),
                     .until_free = std::move(until_free)});
  } else {
    Free(range);
  }
  FreeDroppedLocked();
}

void Column::FreeDropped() {
  const ThreadLock lock(&mutex_);
  FreeDroppedLocked();
}

// At a limit of descriptors the next call tries again.
void Column::Left::LearnOwner() {
  if (!inbox.valid()) return;
  absl::StatusOr<PidFd> found = OwnerOfInbox(inbox.get());
  owner_has_ended = IsKnownToHaveEnded(found);
  if (!found.ok()) return;
  owner = *std::move(found);
  inbox.Reset();
}

void Column::FreeDroppedLocked() {
  std::vector<pollfd> ends;
  for (Left& left : left_) {
    left.LearnOwner();
    ends.push_back({left.lease.get(), POLLIN, 0});
    ends.push_back({left.owner ? left.owner->fd() : -1, POLLIN, 0});
  }
  PollAll(ends);
  for (size_t i = left_.size(); i-- > 0;) {
    if (!left_[i].owner_has_ended &&
        (ends[2 * i].revents | ends[2 * i + 1].revents) == 0) {
      continue;
    }
    Free(left_[i].range);
    CloseReceived(std::move(left_[i].lease));
    left_.erase(left_.begin() + static_cast<ptrdiff_t>(i));
  }
}

void Column::Free(const ColumnRange& range) {
  free_cells_.Free(range.first_cell, RoundUp(range.count));
  entry_used_[range.directory_entry] = false;
}

}  // namespace tenon
