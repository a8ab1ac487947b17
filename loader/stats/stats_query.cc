// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/stats_query.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/loader/stats/stats_memory.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/shown_memfd.h"
#include "tenon/shm/process/process_info.h"

namespace tenon::loader {
namespace {

constexpr size_t kMostMemories = 4096;
constexpr size_t kMostFds = size_t{1} << 20;  // Per process.

std::optional<ParsedStats> ReadStats(int fd) {
  // And a last word, which only a reader of events needs.
  std::vector<uint64_t> words(StatsWords(0) + 1);
  const size_t bytes = StatsWords(0) * sizeof(uint64_t);
  if (RetryOnEintr([&] { return pread(fd, words.data(), bytes, 0); }) !=
      static_cast<ssize_t>(bytes)) {
    return std::nullopt;
  }
  auto parsed = ParseStats(words);
  if (!parsed.ok()) return std::nullopt;
  return *std::move(parsed);
}

class LoaderSearch {
 public:
  absl::Status SearchProcess(pid_t pid) {
    if (!IsOfThisUser(pid)) return absl::OkStatus();
    const auto fds = FdsOf(pid, kMostFds);
    if (absl::IsResourceExhausted(fds.status())) return fds.status();
    if (absl::IsPermissionDenied(fds.status())) query_.hidden.push_back(pid);
    if (!fds.ok()) return absl::OkStatus();
    own_pid_.reset();
    for (const int fd : *fds) TENON_RETURN_IF_ERROR(SearchFd(pid, fd));
    return absl::OkStatus();
  }

  LoaderQuery Finish() {
    const int64_t now = MonotonicNs();
    // The processes of each loader, by number: the consumer, -1, is the first.
    std::map<RandomId, std::map<int, ParsedStats>> loaders;
    for (auto& [id, memory] : found_) {
      if (!memory) continue;
      const auto [at, is_new] =
          loaders[memory->info.loader].try_emplace(memory->info.worker);
      // A worker that is replaced may not have ended yet.
      if (is_new ||
          at->second.process.started_ns < memory->process.started_ns) {
        at->second = *std::move(memory);
      }
    }
    for (auto& [id, processes] : loaders) {
      if (processes.begin()->first >= 0) continue;  // The consumer has ended.
      const ParsedStats consumer = std::move(processes.begin()->second);
      std::vector<ParsedStats> workers;
      for (auto at = std::next(processes.begin()); at != processes.end();
           ++at) {
        workers.push_back(std::move(at->second));
      }
      query_.loaders.push_back(JoinStats(consumer, std::move(workers), now));
    }
    std::sort(query_.loaders.begin(), query_.loaders.end(),
              [](const LoaderStats& a, const LoaderStats& b) {
                return std::tie(a.consumer.pid, a.consumer.started_ns) <
                       std::tie(b.consumer.pid, b.consumer.started_ns);
              });
    return std::move(query_);
  }

 private:
  absl::Status SearchFd(pid_t pid, int fd) {
    TENON_ASSIGN_OR_RETURN(const auto shown, InspectMemfd(pid, fd));
    if (!shown || (shown->label != kConsumerStatsLabel &&
                   shown->label != kWorkerStatsLabel)) {
      return absl::OkStatus();
    }
    auto at = found_.find(shown->id);
    if (at == found_.end()) {
      if (found_.size() >= kMostMemories) return absl::OkStatus();
      TENON_ASSIGN_OR_RETURN(const UniqueFd file,
                             OpenShownMemfd(pid, fd, shown->id));
      if (!file.valid()) return absl::OkStatus();
      at = found_.emplace(shown->id, ReadStats(file.get())).first;
      if (!at->second) return absl::OkStatus();
      makers_[shown->id] = at->second->process.pid;
      at->second->process.pid = pid;
      return absl::OkStatus();
    }
    // A process that it was sent to may show it, too.
    if (at->second && makers_[shown->id] == OwnPidOf(pid)) {
      at->second->process.pid = pid;
    }
    return absl::OkStatus();
  }

  // As the process sees itself.
  pid_t OwnPidOf(pid_t pid) {
    if (!own_pid_) {
      const std::vector<pid_t> pids = PidsOf(pid);
      own_pid_ = pids.empty() ? 0 : pids.back();
    }
    return *own_pid_;
  }

  LoaderQuery query_;
  std::map<MemfdId, std::optional<ParsedStats>> found_;
  std::map<MemfdId, pid_t> makers_;
  std::optional<pid_t> own_pid_;
};

}  // namespace

absl::StatusOr<LoaderQuery> QueryLoaders() {
  TENON_ASSIGN_OR_RETURN(std::vector<pid_t> pids, AllPids());
  std::sort(pids.begin(), pids.end());
  LoaderSearch search;
  for (const pid_t pid : pids) {
    TENON_RETURN_IF_ERROR(search.SearchProcess(pid));
  }
  return search.Finish();
}

}  // namespace tenon::loader
