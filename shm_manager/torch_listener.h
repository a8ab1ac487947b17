// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TorchListener: the part of the daemon of names that torch's processes take
// for their torch_shm_manager.
//
// A file of torch carries no lock by which the kernel could tell that it is
// held (named_segments.h). So this listener has what the rest of the daemon
// does without: a table of names and of the processes that registered them. The
// kernel says which process sent a message, and when it has ended:
//
//   a holder ends          it holds nothing any more
//   no holder is left      the count in the file, less the references of
//                          holders that died, is that of messages in flight:
//     none                   the name is removed at once
//     some                   it is removed keep_after_death after the end of
//                            the last process that held it; if its file is
//                            older than its registration, that of its creator
//
// Names of Tenon are accepted and not entered: their locks say who holds them.

#ifndef TENON_SHM_MANAGER_TORCH_LISTENER_H_
#define TENON_SHM_MANAGER_TORCH_LISTENER_H_

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/listener/socket_file.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm_manager/name_reclaimer.h"
#include "tenon/shm_manager/torch_message.h"

namespace tenon {

struct TorchListenerOptions {
  // Connections, and processes, of which each takes a descriptor: those that
  // connected, or registered a name over the connection of their parent.
  size_t max_clients = 0;
  size_t max_clients_per_process = 0;  // Connections that it made.
  size_t max_names = 0;                // That are registered.
  size_t max_names_per_process = 0;
  absl::Duration keep_after_death;
  // How long a message may take: the first one from the connection on, others
  // from their first byte on.
  absl::Duration handshake_patience;
  // For what clients cause. May be null.
  std::function<void(const std::string&)> log_problem;
};

// Ownership: owns its sockets and pidfds. Does not own the reclaimer.
// Threads: thread-compatible; has none of its own, and never blocks.
// Processes: of the process that made it only; a forked child may destroy it.
// Trust: clients are of this process's user and in its pid namespace, by the
//   kernel's word for each message, which also has to agree with the pid in it.
//   A message that is malformed, comes in pieces of several processes, takes
//   too long or carries descriptors ends its connection, as does an answer that
//   is not read. A name that neither torch nor Tenon makes, or of another
//   user's file, is refused, and its file never touched.
// Failure: a killed daemon leaves its socket file, which the next one replaces.
//   Its table is lost: names that were registered are removed by torch's own
//   count alone, until another process registers them with the next one.
class TorchListener {
 public:
  struct Counts {
    size_t clients = 0;      // Now: connections.
    uint64_t attached = 0;   // Connections with a message, in all.
    uint64_t refused = 0;    // Connections and names.
    uint64_t malformed = 0;  // Messages; each ended its connection.
  };

  // Listens at `path`; the rules for its directory and its file are those of
  // Listener::CreateAtPath(). Errors: those of Listener::CreateAtPath().
  static absl::StatusOr<std::unique_ptr<TorchListener>> Create(
      const std::string& path, const TorchListenerOptions& options);

  // Removes the socket file.
  ~TorchListener();
  TorchListener(const TorchListener&) = delete;
  TorchListener& operator=(const TorchListener&) = delete;

  // For poll(): an epoll descriptor, readable when there is something to serve.
  int fd() const { return epoll_.get(); }

  // Serves all that is ready. Names go to `reclaimer`.
  void Serve(NameReclaimer* reclaimer);

  // When to call Serve() without an event.
  Deadline NextTimer() const;

  // Whether there is neither a connection nor a living process with names.
  bool IsIdle() const { return clients_.empty() && processes_.empty(); }

  // Closes all connections, and removes the names that no living process holds.
  void Close(NameReclaimer* reclaimer);

  Counts counts() const;

 private:
  // A process that has connected, or sent a message over the connection of its
  // parent, and may hold names.
  struct Process {
    pid_t pid;
    PidFd pid_fd;
    size_t connections = 0;
    std::set<std::string> names;
    uint64_t via = 0;  // The connection of its last message.
    // Until then its names are not examined for another one that it registers.
    Deadline rested_at = Deadline::Passed();
  };
  using Processes = std::map<uint64_t, Process>;
  struct Client {
    UniqueFd socket;
    Processes::iterator process;  // That made it.
    bool is_attached = false;     // Has sent a message.
    Deadline young_until = Deadline::Never();
    Deadline message_by = Deadline::Never();
    std::string bytes;  // Of an incomplete message.
    pid_t sender = 0;   // Of these.
  };
  using Clients = std::map<uint64_t, Client>;
  struct Name {
    // How many times each process has registered it and not deregistered. With
    // 0 it is in flight on behalf of the process.
    std::map<uint64_t, int64_t> holders;
    int64_t lost = 0;  // References of holders that have died.
    // Its file was there before it was registered: a process that registered it
    // with a former daemon may hold it.
    bool is_older = false;
    Deadline expires = Deadline::Never();     // Once no process is left.
    Deadline examine_at = Deadline::Never();  // If it could not be.
  };
  using Names = std::map<std::string, Name>;

  TorchListener(UniqueFd socket, UniqueFd epoll, SocketFile file,
                const TorchListenerOptions& options);

  absl::Status Watch(int fd, uint64_t event);
  void AcceptClients();
  void AddClient(UniqueFd socket);
  absl::Status TryAddClient(UniqueFd* socket);
  void ShedLoad();
  void PauseAccepting(absl::Duration pause);
  void ResumeAccepting();
  Clients::iterator OldestUnfinished();
  void DropOneUnfinished();
  absl::StatusOr<Processes::iterator> FindProcess(pid_t pid, int socket);
  void ForgetUnneeded(Processes::iterator process);
  void EndProcess(Processes::iterator process);
  void RemoveClient(Clients::iterator client);
  bool Receive(Clients::value_type& client, int messages);
  absl::Status TakeBytes(Client& client, ssize_t size, msghdr* message,
                         const char* bytes);
  bool HandleMessage(Clients::value_type& client);
  absl::Status Register(Clients::value_type& client,
                        const TorchMessage& message);
  void Deregister(const TorchMessage& message);
  void ForgetRemoved(Processes::iterator process);
  void Examine(Names::iterator name);
  static bool MayHaveUnknownHolder(const std::string& name, const Name& held);
  void Forget(Names::iterator name);
  void DropSlow();
  void ExamineNames();
  void LogProblem(const std::string& line);

  const TorchListenerOptions options_;
  const uint64_t fork_count_ = ForkCount();
  UniqueFd socket_;
  UniqueFd epoll_;
  SocketFile file_;
  UniqueFd reserve_;  // Closed to shed a connection at a limit of descriptors.
  NameReclaimer* reclaimer_ = nullptr;  // During a call.
  Processes processes_;
  std::map<pid_t, uint64_t> by_pid_;
  Clients clients_;
  Names names_;
  size_t unfinished_ = 0;  // Clients that have not sent a message.
  uint64_t next_number_ = 1;
  Deadline message_timer_ = Deadline::Never();
  Deadline name_timer_ = Deadline::Never();
  Deadline accept_at_ = Deadline::Never();  // After a pause.
  Counts counts_;
};

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_TORCH_LISTENER_H_
