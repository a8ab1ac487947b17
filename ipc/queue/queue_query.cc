// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/queue/queue_query.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/ipc/queue/internal/queue_handle_bytes.h"
#include "tenon/ipc/queue/internal/queue_layout.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/time_histogram.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/shown_memfd.h"

namespace tenon {
namespace {

constexpr size_t kMostQueues = 4096;
constexpr size_t kMostFds = size_t{1} << 20;  // Per process.

// The words of a slot, as numbers.
struct SlotWords {
  uint64_t state;
  uint64_t generation;
  uint64_t head;
  uint64_t take;
  uint64_t get_waits[TimeWords::kWords];
  uint64_t put_waits[TimeWords::kWords];
};

bool ReadAt(int fd, size_t offset, void* to, size_t size) {
  return RetryOnEintr([&] {
           return pread(fd, to, size, static_cast<off_t>(offset));
         }) == static_cast<ssize_t>(size);
}

// `take` is read before `head`. It is the larger one only while the putter of
// taken items has not stored `head` yet.
std::optional<SlotWords> ReadSlot(int fd, size_t slot) {
  using Words = QueueParticipant;
  const size_t at = kQueueParticipantsOffset + slot * sizeof(Words);
  SlotWords words;
  const bool read =
      ReadAt(fd, at + offsetof(Words, state), &words.state, 8) &&
      ReadAt(fd, at + offsetof(Words, generation), &words.generation, 8) &&
      ReadAt(fd, at + offsetof(Words, take), &words.take, 8) &&
      ReadAt(fd, at + offsetof(Words, head), &words.head, 8) &&
      ReadAt(fd, at + offsetof(Words, get_waits), words.get_waits,
             sizeof(words.get_waits)) &&
      ReadAt(fd, at + offsetof(Words, put_waits), words.put_waits,
             sizeof(words.put_waits));
  if (!read) return std::nullopt;
  return words;
}

// The report of a queue's memory, if that is valid.
std::optional<QueueReport> ReadQueue(int fd) {
  QueueGeometry geometry;
  if (!ReadAt(fd, 0, &geometry, sizeof(geometry)) ||
      !CheckQueueGeometry(geometry).ok()) {
    return std::nullopt;
  }
  uint64_t closed = 0;
  if (!ReadAt(fd, offsetof(QueueWords, closed), &closed, sizeof(closed))) {
    return std::nullopt;
  }
  QueueReport report;
  report.id = geometry.id;
  report.type = static_cast<QueueType>(geometry.type);
  report.item_bytes = geometry.item_bytes;
  report.capacity = geometry.capacity;
  report.max_participants = geometry.participants;
  report.bytes = geometry.bytes();
  report.closed = closed != 0;
  for (size_t slot = 0; slot < geometry.participants; ++slot) {
    const auto words = ReadSlot(fd, slot);
    if (!words.has_value()) return std::nullopt;
    const uint64_t state = words->state & 3;
    if (words->generation == 0 && state == QueueParticipant::kFree) continue;
    const uint64_t put = std::max(words->head, words->take);
    // Items may have been taken, and others put, between the two reads.
    const uint64_t items =
        std::min<uint64_t>(put - words->take, geometry.capacity);
    report.slots.push_back(
        {.slot = slot,
         .present = state == QueueParticipant::kReady,
         .put = put,
         .items = items,
         .get_waits = TimeHistogram::FromWords(words->get_waits),
         .put_waits = TimeHistogram::FromWords(words->put_waits)});
    report.items += items;
  }
  return report;
}

// Finds each queue once, however many processes have it open.
class QueueSearch {
 public:
  absl::Status SearchProcess(pid_t pid) {
    if (!IsOfThisUser(pid)) return absl::OkStatus();
    const auto fds = FdsOf(pid, kMostFds);
    if (absl::IsResourceExhausted(fds.status())) return fds.status();
    if (absl::IsPermissionDenied(fds.status())) hidden_.push_back(pid);
    if (!fds.ok()) return absl::OkStatus();
    for (const int fd : *fds) TENON_RETURN_IF_ERROR(SearchFd(pid, fd));
    return absl::OkStatus();
  }

  QueueReports Report() {
    QueueReports reports;
    for (auto& [id, queue] : found_) {
      if (queue.has_value()) reports.queues.push_back(*std::move(queue));
    }
    std::sort(reports.queues.begin(), reports.queues.end(),
              [](const QueueReport& a, const QueueReport& b) {
                return std::tie(a.name, a.id) < std::tie(b.name, b.id);
              });
    reports.hidden = std::move(hidden_);
    return reports;
  }

 private:
  absl::Status SearchFd(pid_t pid, int fd) {
    TENON_ASSIGN_OR_RETURN(const auto shown, InspectMemfd(pid, fd));
    if (!shown.has_value()) return absl::OkStatus();
    absl::string_view name = shown->label;
    if (!absl::ConsumePrefix(&name, kQueueLabel)) return absl::OkStatus();
    auto at = found_.find(shown->id);
    if (at == found_.end()) {
      if (found_.size() >= kMostQueues) return absl::OkStatus();
      TENON_ASSIGN_OR_RETURN(const UniqueFd file,
                             OpenShownMemfd(pid, fd, shown->id));
      if (!file.valid()) return absl::OkStatus();
      auto queue = ReadQueue(file.get());
      if (queue.has_value()) queue->name = std::string(name);
      at = found_.emplace(shown->id, std::move(queue)).first;
    }
    if (!at->second.has_value()) return absl::OkStatus();
    std::vector<pid_t>& pids = at->second->pids;
    if (pids.empty() || pids.back() != pid) pids.push_back(pid);
    return absl::OkStatus();
  }

  // nullopt: not a queue.
  std::map<MemfdId, std::optional<QueueReport>> found_;
  std::vector<pid_t> hidden_;
};

}  // namespace

absl::StatusOr<QueueReports> QueryQueues() {
  TENON_ASSIGN_OR_RETURN(std::vector<pid_t> pids, AllPids());
  std::sort(pids.begin(), pids.end());
  QueueSearch search;
  for (const pid_t pid : pids) TENON_RETURN_IF_ERROR(search.SearchProcess(pid));
  return search.Report();
}

}  // namespace tenon
