// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/attach_process.h"

#include <poll.h>
#include <sys/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/per_process.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/segment/name_keeper.h"
#include "tenon/shm_manager/manager_client.h"
#include "tenon/spawn/settings/inherited_setting.h"

namespace tenon {
namespace {

// How long a call waits for a daemon that does not answer.
constexpr absl::Duration kPatience = absl::Seconds(1);
// Before the next attempt, in multiples of the duration of one that failed.
constexpr int kRest = 20;
constexpr absl::Duration kLeastRest = absl::Seconds(1);
// Between two looks whether the daemon has ended.
constexpr int64_t kLookPauseNs = 100'000'000;

// Never freed: another thread may be reading them.
struct Wanted {
  ManagerClientOptions options;
  const Wanted* before;
};
constinit std::atomic<const Wanted*> all_wanted = nullptr;
// Those of the last AttachProcess(), in this process or a parent; null if there
// was none.
constinit std::atomic<const ManagerClientOptions*> wanted = nullptr;

absl::Status NotWanted() {
  return absl::FailedPreconditionError(
      "shm_manager: AttachProcess() was not called");
}

// The attachment of one process.
class Connection {
 public:
  // If another thread is at it, it is enough.
  void Look() {
    if (MonotonicNs() < look_at_ns_.load(std::memory_order_relaxed)) return;
    if (!mutex_.TryLock()) return;
    const ThreadLock lock(&mutex_, std::adopt_lock);
    EnsureAttached();
  }

  absl::Status Keep(absl::string_view name) {
    const ThreadLock lock(&mutex_);
    EnsureAttached();
    absl::Status status = Ask(&ManagerClient::KeepName, name);
    if (absl::IsUnavailable(status) && !client_) {
      // The daemon has just ended: the next one is asked.
      EnsureAttached();
      status = Ask(&ManagerClient::KeepName, name);
    }
    if (!status.ok()) unkept_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }

  void Release(absl::string_view name) {
    const ThreadLock lock(&mutex_);
    EnsureAttached();
    // With a daemon that has ended, its hold has ended.
    Ask(&ManagerClient::ReleaseName, name).IgnoreError();
  }

  void Use(ManagerClient client) {
    const ThreadLock lock(&mutex_);
    client_.emplace(std::move(client));
    status_ = absl::OkStatus();
    LookLater();
  }

  void Drop() {
    const ThreadLock lock(&mutex_);
    client_.reset();
    retry_at_ = Deadline::Passed();
  }

  ProcessAttachment Describe() {
    const ThreadLock lock(&mutex_);
    if (client_ && HasEnded()) Lose();
    ProcessAttachment found = {
        .status = status_,
        .daemon = client_ ? client_->daemon().pid : 0,
        .unkept_names = unkept_.load(std::memory_order_relaxed)};
    return found;
  }

 private:
  using Request = absl::Status (ManagerClient::*)(absl::string_view, Deadline);

  bool HasEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    pollfd fd = {.fd = client_->fd(), .events = POLLIN, .revents = 0};
    return client_->fd() < 0 || poll(&fd, 1, 0) > 0;
  }

  void Lose() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    client_.reset();
    retry_at_ = Deadline::Passed();
    status_ = absl::UnavailableError("shm_manager: the daemon has ended");
  }

  void LookLater() {
    look_at_ns_.store(MonotonicNs() + kLookPauseNs, std::memory_order_relaxed);
  }

  void RestAfter(absl::Duration attempt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    retry_at_ = Deadline::After(std::max(kLeastRest, kRest * attempt));
  }

  void EnsureAttached() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const ManagerClientOptions* const options = wanted.load();
    if (client_ && HasEnded()) Lose();
    LookLater();
    if (client_ || options == nullptr || !retry_at_.has_passed()) return;
    const int64_t begin = MonotonicNs();
    absl::StatusOr<ManagerClient> client =
        ManagerClient::Attach(*options, Deadline::After(kPatience));
    status_ = client.status();
    if (client.ok()) {
      client_.emplace(*std::move(client));
    } else {
      RestAfter(absl::Nanoseconds(MonotonicNs() - begin));
    }
  }

  absl::Status Ask(Request request, absl::string_view name)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!client_) return status_;
    absl::Status status =
        ((*client_).*request)(name, Deadline::After(kPatience));
    if (client_->fd() >= 0) return status;
    // It has detached: the daemon has ended, or does not answer.
    Lose();
    status_ = status;
    if (absl::IsDeadlineExceeded(status)) RestAfter(kPatience);
    return status;
  }

  std::atomic<int64_t> look_at_ns_ = 0;
  std::atomic<uint64_t> unkept_ = 0;
  ThreadMutex mutex_;
  std::optional<ManagerClient> client_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_) = absl::UnavailableError(
      "shm_manager: this process has no named segment yet");
  Deadline retry_at_ ABSL_GUARDED_BY(mutex_) = Deadline::Passed();
};

// Of this process: a forked child has its own.
constinit PerProcess<Connection> connection;

class ManagerKeeper final : public NameKeeper {
 public:
  constexpr ManagerKeeper() = default;

  void Attend() override { connection.Get().Look(); }
  absl::Status KeepName(absl::string_view name) override {
    return connection.Get().Keep(name);
  }
  void ReleaseName(absl::string_view name) override {
    connection.Get().Release(name);
  }
};

constinit ManagerKeeper keeper;

// Whatever a child changes of its environment or its directory.
absl::StatusOr<ManagerClientOptions> Resolve(ManagerClientOptions options) {
  if (options.path.empty()) {
    TENON_ASSIGN_OR_RETURN(options.path, ManagerPath());
    if (!options.program.empty()) {
      TENON_RETURN_IF_ERROR(MakeManagerFolder(options.path));
    }
  }
  for (std::string* path : {&options.path, &options.program}) {
    if (path->empty()) continue;
    std::error_code error;
    const auto absolute = std::filesystem::absolute(*path, error);
    if (!error) *path = absolute.string();
  }
  return options;
}

void Install(const ManagerClientOptions& options) {
  const Wanted* before = all_wanted.load();
  auto added = std::make_unique<Wanted>(Wanted{options, before});
  while (!all_wanted.compare_exchange_weak(before, added.get())) {
    added->before = before;
  }
  wanted.store(&added.release()->options);
  SetNameKeeper(&keeper);
}

// ---- Children of //spawn ----

std::string SaveAttachment() {
  const ManagerClientOptions* const options = wanted.load();
  if (options == nullptr) return "";
  ArchiveWriter writer;
  writer.PutString(options->path);
  writer.PutString(options->program);
  writer.Put(absl::ToInt64Nanoseconds(options->idle_exit));
  return std::move(writer).bytes();
}

absl::Status ApplyAttachment(absl::string_view saved) {
  if (saved.empty()) return absl::OkStatus();
  ArchiveReader reader(saved);
  ManagerClientOptions options;
  TENON_ASSIGN_OR_RETURN(options.path, reader.GetString());
  TENON_ASSIGN_OR_RETURN(options.program, reader.GetString());
  TENON_ASSIGN_OR_RETURN(const int64_t idle_exit_ns, reader.Get<int64_t>());
  options.idle_exit = absl::Nanoseconds(idle_exit_ns);
  TENON_RETURN_IF_ERROR(reader.Finish());
  Install(options);
  return absl::OkStatus();
}

TENON_SPAWN_INHERIT("shm_manager", SaveAttachment, ApplyAttachment);

}  // namespace

absl::Status AttachProcess(const ManagerClientOptions& options,
                           Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(const ManagerClientOptions resolved, Resolve(options));
  TENON_ASSIGN_OR_RETURN(ManagerClient client,
                         ManagerClient::Attach(resolved, deadline));
  connection.Get().Use(std::move(client));
  Install(resolved);
  return absl::OkStatus();
}

void DetachProcess() {
  if (wanted.exchange(nullptr) == nullptr) return;
  SetNameKeeper(nullptr);
  connection.Get().Drop();
}

ProcessAttachment GetProcessAttachment() {
  if (wanted.load() == nullptr) return {.status = NotWanted()};
  return connection.Get().Describe();
}

}  // namespace tenon
