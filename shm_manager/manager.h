// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Manager: the daemon of names, as a library: it removes the names in /dev/shm
// whose holders have died, at once instead of at the next shortage.
//
//   TENON_ASSIGN_OR_RETURN(auto manager, Manager::Create(path, {}));
//   return manager->Run(stop_fd);  // Until its last client has gone.
//
// Of Tenon's names it knows neither which process holds which nor how many
// there are: the kernel's locks say that (named_segments.h). A client only
// attaches, so that its end is noticed; what the daemon does then is
// ReclaimDeadNames(). So a superfluous event costs one examination of the
// names, a missed one a delay, and nothing is lost with the daemon.

#ifndef TENON_SHM_MANAGER_MANAGER_H_
#define TENON_SHM_MANAGER_MANAGER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm_manager/manager_message.h"
#include "tenon/shm_manager/manager_stats.h"
#include "tenon/shm_manager/name_reclaimer.h"
#include "tenon/shm_manager/torch_listener.h"

namespace tenon {

struct ManagerOptions {
  // How long Run() goes on without a client; at least a second before the first
  // one.
  absl::Duration idle_exit = absl::Seconds(10);
  // A client takes two descriptors, a kept name one; a process that has
  // detached and lives on, one, of which there are at most max_clients.
  size_t max_clients = 4096;
  size_t max_clients_per_process = 64;
  size_t max_kept_names = 4096;
  // Of the names that the clients of one process have asked to be kept.
  size_t max_kept_names_per_client = 1024;
  // How long a name stays kept after the process that asked has ended, or has
  // detached and not attached again: for a message in flight. Without a limit,
  // lost messages would fill /dev/shm.
  absl::Duration keep_after_death = absl::Minutes(10);
  // The sum of the sizes of kept segments.
  uint64_t max_kept_bytes = uint64_t{1} << 40;
  // How long a connection may take until it has attached.
  absl::Duration handshake_patience = absl::Seconds(5);
  // A second socket, for processes of torch, which take this daemon for their
  // torch_shm_manager (torch_listener.h); empty: none. Its limits are the same,
  // beside these of the names that torch registers; vm.max_map_count has fewer
  // mappings for a process.
  std::string torch_path;
  size_t max_torch_names = size_t{1} << 18;
  size_t max_torch_names_per_process = size_t{1} << 16;
  // Called by Run() at most once a second for what clients cause, and by the
  // thread that removes names.
  LogFunction log = nullptr;
};

// Ownership: owns its socket, its clients' channels and the kept names.
// Threads: thread-compatible. Run() has a thread of its own that removes names.
// Processes: inert in a forked child: Run() fails with kFailedPrecondition.
// Trust: clients are of this process's user, by the kernel's word (listener.h).
//   A message that is malformed, too long, or carries descriptors ends its
//   connection; a client that does not read its replies, or does not attach in
//   time, is dropped. No client makes Run() wait or return. At the limit of
//   descriptors of this process, a process that connects gets
//   kResourceExhausted.
// Failure: a killed daemon leaves its socket file, which the next one replaces,
//   and dead names, which the next one removes when it begins to serve.
class Manager {
 public:
  // Listens at `path` (Listener::CreateAtPath()), and at torch_path.
  // Errors: kInvalidArgument for bad options; those of
  // Listener::CreateAtPath(): kAlreadyExists if another daemon listens there.
  static absl::StatusOr<std::unique_ptr<Manager>> Create(
      absl::string_view path, const ManagerOptions& options);

  // The same on a socket that listens already, from systemd
  // (Listener::Adopt()). Errors: as above; kInvalidArgument for another kind of
  // descriptor.
  static absl::StatusOr<std::unique_ptr<Manager>> CreateOn(
      UniqueFd socket, const ManagerOptions& options);

  ~Manager() = default;
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  // Serves until there has been no client for idle_exit, or `stop_fd`, unless
  // it is -1, is readable. Removes dead names at the beginning, after each end
  // of a client, and once it has closed everything and released the kept names.
  // To be called once.
  // Errors: those of epoll; kResourceExhausted if no thread can be made.
  absl::Status Run(int stop_fd);

  ManagerStats stats();

 private:
  // A process with connections, with kept names, or one that has attached and
  // lives on: it may drop its locks long after its socket.
  struct Process {
    // Has the pidfd that is watched, if any; its socket is the client's.
    std::optional<Channel> identity;
    pid_t pid;  // 0 if it cannot be seen from here; then it is known by its id.
    RandomId id;
    size_t connections = 0;
    size_t kept_names = 0;
    bool has_attached = false;
    Deadline names_expire = Deadline::Never();  // Without a connection.
  };
  using Processes = std::map<uint64_t, Process>;
  struct Client {
    Channel channel;
    Processes::iterator process;
    Deadline attach_by;
    bool is_attached = false;
  };
  using Clients = std::map<uint64_t, Client>;
  // A name in flight between two clients.
  struct KeptName {
    Segment segment;
    // The first one with a connection that asked for it.
    Processes::iterator process;
    uint64_t times = 1;  // That it is to be kept and not yet released.
  };
  using KeptNames = std::map<std::string, KeptName>;

  Manager(Listener listener, UniqueFd epoll, const ManagerOptions& options);

  static absl::StatusOr<std::unique_ptr<Manager>> Begin(
      absl::StatusOr<Listener> listener, const ManagerOptions& options);
  absl::Status ListenForTorch();
  absl::Status Serve(bool* stopped);
  void ServeTorch();
  absl::Status Watch(int fd, uint64_t event);
  void Unwatch(int fd);
  Deadline NextTimer() const;
  bool IsIdle() const;
  void AcceptClients();
  void PauseAccepting(bool pause);
  void RefuseAtLimit();
  void AddClient(Channel channel);
  absl::Status TryAddClient(Channel* channel);
  absl::StatusOr<Processes::iterator> FindProcess(const Channel& channel);
  void RemoveClient(Clients::iterator client);
  void EndProcess(Processes::iterator process);
  void ForgetIdentity(Process& process);
  void ForgetUnneeded(Processes::iterator process);
  void DropSilent();
  bool HandleMessage(Clients::value_type& client);
  absl::Status Answer(Clients::value_type& client,
                      const ManagerRequest& request);
  absl::Status KeepName(Clients::value_type& client, const std::string& name);
  absl::Status ReleaseName(const std::string& name);
  void Drop(KeptNames::iterator kept);
  bool MayKeep(const Process& process) const;
  // Kept names of processes without a connection.
  size_t CountOfAbsent() const;
  void ExamineKeptNames();
  void LogProblem(const std::string& line);

  std::optional<Listener> listener_;
  const ManagerOptions options_;
  const uint64_t fork_count_ = ForkCount();
  UniqueFd epoll_;
  Processes processes_;
  Clients clients_;
  KeptNames kept_;
  uint64_t kept_bytes_ = 0;
  std::unique_ptr<NameReclaimer> reclaimer_;  // During Run().
  std::unique_ptr<TorchListener> torch_;      // May be null.
  // Closed to refuse a connection at the limit of descriptors.
  UniqueFd reserve_;
  uint64_t next_number_ = 2;  // Of a client or a process; never reused.
  ManagerStats stats_;
  uint64_t over_quota_ = 0;
  Deadline idle_at_ = Deadline::Never();
  Deadline accept_at_ = Deadline::Never();  // After a pause.
  Deadline attach_by_ = Deadline::Never();  // The earliest of the clients'.
  Deadline examine_at_ = Deadline::Never();
  Deadline examine_again_at_ = Deadline::Passed();  // Earlier than that.
  Deadline log_at_ = Deadline::Passed();
  uint64_t unlogged_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_MANAGER_H_
