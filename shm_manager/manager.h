// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Manager: the daemon of names, as a library: it removes the names in /dev/shm
// whose holders have died, at once instead of at the next shortage.
//
//   TENON_ASSIGN_OR_RETURN(auto manager, Manager::Create(path, {}));
//   return manager->Run(stop_fd);  // Until its last client has gone.
//
// It knows neither which process holds which name nor how many names there are:
// the kernel's locks say that (named_segments.h). A client only attaches, so
// that its end is noticed; what the daemon does then is ReclaimDeadNames(). So
// an event too many costs a look, one too few a delay, and nothing is lost with
// the daemon.

#ifndef TENON_SHM_MANAGER_MANAGER_H_
#define TENON_SHM_MANAGER_MANAGER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm_manager/manager_message.h"
#include "tenon/shm_manager/manager_stats.h"

namespace tenon {

enum class LogKind { kEvent, kProblem };

struct ManagerOptions {
  // How long Run() goes on without a client.
  absl::Duration idle_exit = absl::Seconds(10);
  // A client takes two descriptors, a kept name one.
  size_t max_clients = 4096;
  size_t max_kept_names = 4096;
  // Of the names that one client has asked to be kept.
  size_t max_kept_names_per_client = 1024;
  // How long a name stays kept after the client that asked has ended: for a
  // message in flight. Without a limit, lost messages would fill /dev/shm.
  absl::Duration keep_after_death = absl::Minutes(10);
  // The sum of the sizes of kept segments.
  uint64_t max_kept_bytes = uint64_t{1} << 40;
  // Called with a line for the log; may be null.
  std::function<void(LogKind, const std::string&)> log = nullptr;
};

// Ownership: owns its socket, its clients' channels and the kept names.
// Threads: thread-compatible; has none of its own.
// Processes: inert in a forked child.
// Trust: clients are of this process's user, by the kernel's word (listener.h).
//   A message that is malformed, too long, or carries descriptors ends its
//   connection; a client that does not read its replies is dropped. No client
//   makes Run() wait or return. At the limit of descriptors of this process, a
//   process that connects gets kResourceExhausted.
// Failure: a killed daemon leaves its socket file, which the next one replaces,
//   and dead names, which the next one removes first.
class Manager {
 public:
  // Listens at `path` (Listener::CreateAtPath()), and removes the names that
  // dead processes left. Errors: kInvalidArgument for bad options; those of
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
  // it is -1, is readable. Then closes everything, releases the kept names and
  // removes dead names once more. To be called once.
  // Errors: poll()'s.
  absl::Status Run(int stop_fd);

  const ManagerStats& stats();

 private:
  struct Client {
    Channel channel;
    bool is_attached = false;
    size_t kept_names = 0;
  };
  // A name in flight between two clients.
  struct KeptName {
    Segment segment;
    uint64_t client;     // The key of the first living one that asked for it.
    uint64_t times = 1;  // That it is to be kept and not yet released.
    Deadline expires = Deadline::Never();  // Once that client has ended.
  };
  using KeptNames = std::map<std::string, KeptName>;

  using Clients = std::map<uint64_t, Client>;

  Manager(Listener listener, UniqueFd epoll, const ManagerOptions& options);

  static absl::StatusOr<std::unique_ptr<Manager>> Begin(
      absl::StatusOr<Listener> listener, const ManagerOptions& options);
  absl::Status Serve(int stop_fd, bool* stopped);
  Deadline NextTimer(bool accepts) const;
  bool IsIdle() const;
  void AcceptClients();
  void RefuseAtLimit();
  void AddClient(Channel channel);
  absl::Status Watch(const Clients::value_type& client);
  void Unwatch(const Channel& channel);
  void ServeClients();
  void RemoveClient(Clients::iterator client);
  bool HandleMessage(Clients::value_type& client);
  absl::Status Answer(Clients::value_type& client,
                      const ManagerRequest& request);
  absl::Status KeepName(Clients::value_type& client, const std::string& name);
  absl::Status ReleaseName(const std::string& name);
  absl::Status Drop(KeptNames::iterator kept);
  void DropExpired();
  void ScheduleSweeps();
  void Sweep();
  void Log(LogKind kind, const std::string& line) const;

  std::optional<Listener> listener_;
  const ManagerOptions options_;
  Clients clients_;
  UniqueFd epoll_;  // The sockets and pidfds of clients.
  KeptNames kept_;
  uint64_t kept_bytes_ = 0;
  // Closed to refuse a connection at the limit of descriptors.
  UniqueFd reserve_;
  uint64_t next_client_ = 1;
  ManagerStats stats_;
  uint64_t over_quota_ = 0;
  Deadline idle_at_ = Deadline::Never();
  Deadline accept_at_ = Deadline::Passed();
  Deadline sweep_at_ = Deadline::Never();
  Deadline drop_at_ = Deadline::Never();
  size_t sweeps_done_ = 0;  // Since a client ended.
};

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_MANAGER_H_
