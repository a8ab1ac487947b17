// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/torch_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/ancillary.h"
#include "tenon/ipc/listener/socket_file.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm_manager/name_reclaimer.h"
#include "tenon/shm_manager/torch_file.h"
#include "tenon/shm_manager/torch_message.h"

namespace tenon {
namespace {

// Those of Listener and of Manager.
constexpr size_t kMaxUnfinished = 64;
constexpr int kAcceptedAtOnce = 64;
constexpr int kEventsAtOnce = 64;
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
// How old a connection without a message has to be before it is dropped in
// favour of others, which wait meanwhile: with the kernel's queue of 128 full
// of silent ones less than the second that torch waits for its answer.
constexpr absl::Duration kYouth = absl::Milliseconds(200);
constexpr absl::Duration kYouthPause = absl::Milliseconds(10);
// Of one connection before the next one is served.
constexpr int kMessagesAtOnce = 16;
// Of a process that has ended: more than a socket's buffer holds.
constexpr int kLastMessages = 4096;
// Before a name is examined again that could not be.
constexpr absl::Duration kExaminePause = absl::Seconds(1);
// After all names of a process have been examined, in multiples of the time
// that it took.
constexpr int kRest = 20;

// Events: those of a client have twice its number; that of a process's pidfd
// has twice the number of the process, plus 1.
constexpr uint64_t kListenerEvent = 0;

UniqueFd OpenReserve() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

bool IsAtLimit(int error) { return error == EMFILE || error == ENFILE; }

ucred CredentialsOf(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer;
}

bool HasHungUp(int socket) {
  pollfd fd = {.fd = socket, .events = 0, .revents = 0};
  return poll(&fd, 1, 0) == 1 && (fd.revents & POLLHUP) != 0;
}

absl::Status CheckUser(const ucred& sender) {
  if (sender.uid == geteuid() && sender.pid > 0) return absl::OkStatus();
  if (sender.uid == geteuid()) {
    return absl::PermissionDeniedError(
        "a process of another pid namespace; want one that the daemon sees");
  }
  return absl::PermissionDeniedError(
      absl::StrCat("process ", sender.pid, " of user ", sender.uid,
                   "; want one of user ", geteuid()));
}

// Whether there is such a file, which may be one of torch: a process that makes
// it registers it before.
absl::StatusOr<bool> CheckName(const std::string& name) {
  if (!IsTorchName(name)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "'", name,
        "' is neither a name of torch (torch_PID_...) nor a random one of "
        "Tenon; it is not registered"));
  }
  struct stat file;
  if (lstat(absl::StrCat("/dev/shm/", name).c_str(), &file) != 0) return false;
  if (S_ISREG(file.st_mode) && file.st_uid == geteuid()) return true;
  return absl::PermissionDeniedError(
      absl::StrCat("'", name, "' is not a regular file of user ", geteuid()));
}

// By the pid in the name; another process may have that number by now.
bool MayCreatorLive(absl::string_view name) {
  name.remove_prefix(kTorchNamePrefix.size());
  pid_t pid = 0;
  return absl::SimpleAtoi(name.substr(0, name.find('_')), &pid) && pid > 0 &&
         (kill(pid, 0) == 0 || errno == EPERM);
}

bool SendAnswer(int socket, absl::string_view answer) {
  return send(socket, answer.data(), answer.size(),
              MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(answer.size());
}

}  // namespace

TorchListener::TorchListener(UniqueFd socket, UniqueFd epoll, SocketFile file,
                             const TorchListenerOptions& options)
    : options_(options),
      socket_(std::move(socket)),
      epoll_(std::move(epoll)),
      file_(std::move(file)),
      reserve_(OpenReserve()) {}

absl::StatusOr<std::unique_ptr<TorchListener>> TorchListener::Create(
    const std::string& path, const TorchListenerOptions& options) {
  UniqueFd socket(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return PosixError(errno, "socket", "AF_UNIX");
  // Connections inherit it: each message has its sender, which is a forked
  // child of the process that connected if that one shares the connection.
  const int on = 1;
  if (setsockopt(socket.get(), SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0) {
    return PosixError(errno, "setsockopt(SO_PASSCRED)", path);
  }
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return PosixError(errno, "epoll_create1", path);
  TENON_ASSIGN_OR_RETURN(SocketFile file,
                         SocketFile::Listen(socket.get(), path));
  std::unique_ptr<TorchListener> listener(new TorchListener(
      std::move(socket), std::move(epoll), std::move(file), options));
  TENON_RETURN_IF_ERROR(
      listener->Watch(listener->socket_.get(), kListenerEvent));
  return listener;
}

TorchListener::~TorchListener() {
  if (CheckNotForked(fork_count_, "shm_manager").ok()) file_.Remove();
}

TorchListener::Counts TorchListener::counts() const {
  Counts counts = counts_;
  counts.clients = clients_.size();
  return counts;
}

Deadline TorchListener::NextTimer() const {
  return Earlier(Earlier(message_timer_, name_timer_), accept_at_);
}

absl::Status TorchListener::Watch(int fd, uint64_t event_data) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = event_data}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "epoll_ctl", "shm_manager");
}

void TorchListener::Serve(NameReclaimer* reclaimer) {
  reclaimer_ = reclaimer;
  epoll_event events[kEventsAtOnce];
  const int count = epoll_wait(epoll_.get(), events, kEventsAtOnce, 0);
  bool connects = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t event = events[i].data.u64;
    if (event == kListenerEvent) {
      connects = true;
    } else if (event % 2 == 1) {
      const auto process = processes_.find(event / 2);
      if (process != processes_.end()) EndProcess(process);
    } else {
      const auto client = clients_.find(event / 2);
      // It may have been removed by an event before.
      if (client != clients_.end() && !Receive(*client, kMessagesAtOnce)) {
        RemoveClient(client);
      }
    }
  }
  if (accept_at_.has_passed()) ResumeAccepting();
  if (connects && accept_at_.is_never()) AcceptClients();
  if (message_timer_.has_passed()) DropSlow();
  if (name_timer_.has_passed()) ExamineNames();
}

void TorchListener::Close(NameReclaimer* reclaimer) {
  reclaimer_ = reclaimer;
  file_.Remove();
  socket_.Reset();
  clients_.clear();
  for (const auto& [name, registered] : names_) {
    if (registered.holders.empty() && !MayHaveUnknownHolder(name, registered)) {
      reclaimer_->RemoveTorchName(name);
    }
  }
  names_.clear();
  processes_.clear();
  by_pid_.clear();
}

void TorchListener::PauseAccepting(absl::Duration pause) {
  epoll_event event = {.events = 0, .data = {.u64 = kListenerEvent}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
  accept_at_ = Deadline::After(pause);
}

void TorchListener::ResumeAccepting() {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = kListenerEvent}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket_.get(), &event);
  accept_at_ = Deadline::Never();
}

void TorchListener::AcceptClients() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    // Silent connections must not delay others; but a process that has just
    // connected may only not have been scheduled since.
    if (unfinished_ >= kMaxUnfinished) {
      if (!OldestUnfinished()->second.young_until.has_passed()) {
        PauseAccepting(kYouthPause);
        return;
      }
      DropOneUnfinished();
    }
    UniqueFd socket(
        accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.valid()) {
      TENON_CRASH_POINT("torch.accepted");
      AddClient(std::move(socket));
      continue;
    }
    const int error = errno;
    if (error == EINTR || error == ECONNABORTED) continue;
    if (error == EAGAIN) return;
    if (IsAtLimit(error) && unfinished_ > 0) {
      DropOneUnfinished();
      continue;
    }
    LogProblem(absl::StrCat("cannot accept: ",
                            PosixError(error, "accept4", "torch").message()));
    if (IsAtLimit(error)) ShedLoad();
    PauseAccepting(kAcceptPause);
    return;
  }
}

// A process that connects fails at once instead of after torch's second of
// patience.
void TorchListener::ShedLoad() {
  reserve_.Reset();
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    const UniqueFd socket(
        accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.valid()) break;
    ++counts_.refused;
  }
  reserve_ = OpenReserve();
}

TorchListener::Clients::iterator TorchListener::OldestUnfinished() {
  return std::find_if(clients_.begin(), clients_.end(), [](const auto& client) {
    return !client.second.is_attached;
  });
}

void TorchListener::DropOneUnfinished() {
  const auto oldest = OldestUnfinished();
  if (oldest != clients_.end()) RemoveClient(oldest);
}

void TorchListener::AddClient(UniqueFd socket) {
  const absl::Status status = TryAddClient(&socket);
  if (status.ok()) return;
  ++counts_.refused;
  LogProblem(absl::StrCat("refused: ", status.message()));
}

absl::Status TorchListener::TryAddClient(UniqueFd* socket) {
  const ucred peer = CredentialsOf(socket->get());
  TENON_RETURN_IF_ERROR(CheckUser(peer));
  if (clients_.size() >= options_.max_clients) {
    return absl::ResourceExhaustedError(
        absl::StrCat(clients_.size(),
                     " connections are the most that it takes; raise "
                     "--max_clients"));
  }
  const auto known = by_pid_.find(peer.pid);
  if (known != by_pid_.end()) {
    const auto process = processes_.find(known->second);
    // A dead one had the number before.
    if (process->second.pid_fd.HasEnded()) EndProcess(process);
  }
  TENON_ASSIGN_OR_RETURN(const auto process,
                         FindProcess(peer.pid, socket->get()));
  if (process->second.connections >= options_.max_clients_per_process) {
    return absl::ResourceExhaustedError(absl::StrCat(
        process->second.connections, " connections of process ", peer.pid,
        " are the most that it may have; raise --max_clients_per_process"));
  }
  const uint64_t number = next_number_++;
  const absl::Status watched = Watch(socket->get(), 2 * number);
  if (!watched.ok()) {
    ForgetUnneeded(process);
    return watched;
  }
  ++process->second.connections;
  process->second.via = number;
  const Deadline by = Deadline::After(options_.handshake_patience);
  message_timer_ = Earlier(message_timer_, by);
  clients_.emplace(number, Client{.socket = std::move(*socket),
                                  .process = process,
                                  .young_until = Deadline::After(kYouth),
                                  .message_by = by,
                                  .bytes = std::string()});
  ++unfinished_;
  return absl::OkStatus();
}

// The record of the process, which may be a new one. `socket`: its connection,
// or -1 if it only uses that of a process that it was forked from. Then, and
// before Linux 6.5, another process may have its number by now, if it has ended
// since; a name that it registered is then removed later than it could be.
absl::StatusOr<TorchListener::Processes::iterator> TorchListener::FindProcess(
    pid_t pid, int socket) {
  const auto found = by_pid_.find(pid);
  if (found != by_pid_.end()) {
    const auto process = processes_.find(found->second);
    if (!process->second.pid_fd.HasEnded()) return process;
    return absl::NotFoundError(absl::StrCat("process ", pid, " has ended"));
  }
  if (processes_.size() >= options_.max_clients) {
    return absl::ResourceExhaustedError(
        absl::StrCat(processes_.size(),
                     " processes have connected or registered names, the most "
                     "that it takes; raise --max_clients"));
  }
  absl::StatusOr<PidFd> pid_fd =
      socket >= 0 ? PidFd::OfPeer(socket)
                  : absl::UnimplementedError("no connection of its own");
  if (absl::IsUnimplemented(pid_fd.status())) {
    pid_fd = PidFd::Open(pid);
    if (socket >= 0 && HasHungUp(socket)) {
      pid_fd = absl::NotFoundError("the process has hung up");
    }
  }
  TENON_RETURN_IF_ERROR(pid_fd.status());
  const uint64_t number = next_number_++;
  TENON_RETURN_IF_ERROR(Watch(pid_fd->fd(), 2 * number + 1));
  by_pid_[pid] = number;
  return processes_
      .emplace(number, Process{.pid = pid, .pid_fd = *std::move(pid_fd)})
      .first;
}

void TorchListener::ForgetUnneeded(Processes::iterator process) {
  if (process->second.connections > 0 || !process->second.names.empty()) return;
  const auto by_pid = by_pid_.find(process->second.pid);
  if (by_pid != by_pid_.end() && by_pid->second == process->first) {
    by_pid_.erase(by_pid);
  }
  processes_.erase(process);  // Closes the pidfd, which is this process's only.
}

// It holds nothing any more, also if forked children have its sockets open.
void TorchListener::EndProcess(Processes::iterator process) {
  Process& ended = process->second;
  ++ended.connections;  // It is needed below.
  // Its last messages still count, as may one in the connection of its parent.
  std::vector<uint64_t> last = {ended.via};
  for (const auto& [number, client] : clients_) {
    if (client.process == process) last.push_back(number);
  }
  for (const uint64_t number : last) {
    const auto client = clients_.find(number);
    if (client == clients_.end()) continue;
    const bool stays = Receive(*client, kLastMessages);
    if (!stays || client->second.process == process) {
      // Children of it go on with a connection that they share.
      if (stays && !HasHungUp(client->second.socket.get())) continue;
      RemoveClient(client);
    }
  }
  TENON_CRASH_POINT("torch.ended");
  by_pid_.erase(std::exchange(ended.pid, -1));  // It may be reused.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, ended.pid_fd.fd(), nullptr);
  for (const std::string& held : std::exchange(ended.names, {})) {
    const auto name = names_.find(held);
    if (name == names_.end()) continue;
    const auto holder = name->second.holders.find(process->first);
    if (holder != name->second.holders.end()) {
      name->second.lost += holder->second;
      name->second.holders.erase(holder);
    }
    Examine(name);
  }
  --ended.connections;
  ForgetUnneeded(process);
}

void TorchListener::RemoveClient(Clients::iterator client) {
  const auto process = client->second.process;
  if (!client->second.is_attached) --unfinished_;
  // Closing it would not do that while another process has it open.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, client->second.socket.get(), nullptr);
  clients_.erase(client);
  --process->second.connections;
  ForgetUnneeded(process);
}

// Whether the client stays.
bool TorchListener::Receive(Clients::value_type& client, int messages) {
  Client& from = client.second;
  while (messages > 0) {
    char bytes[kTorchMessageBytes];
    iovec part = {.iov_base = bytes,
                  .iov_len = kTorchMessageBytes - from.bytes.size()};
    ControlBuffer control;
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    AttachRoom(&control, &message);
    const ssize_t size =
        recvmsg(from.socket.get(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno == EAGAIN;
    const absl::Status status = TakeBytes(from, size, &message, bytes);
    if (!status.ok()) {
      ++counts_.malformed;
      LogProblem(absl::StrCat("client ", client.first, ": ", status.message()));
      return false;
    }
    if (size == 0) return false;
    if (from.bytes.size() < kTorchMessageBytes) continue;
    if (!HandleMessage(client)) return false;
    --messages;
  }
  return true;
}

absl::Status TorchListener::TakeBytes(Client& client, ssize_t size,
                                      msghdr* message, const char* bytes) {
  const Ancillary ancillary = TakeAncillary(message);  // Closes descriptors.
  if (size == 0) {
    if (client.bytes.empty()) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("torch: the connection ended after ", client.bytes.size(),
                     " of ", kTorchMessageBytes, " bytes of a message"));
  }
  if (!ancillary.fds.empty() || (message->msg_flags & MSG_CTRUNC) != 0 ||
      !ancillary.credentials) {
    return absl::DataLossError("torch: a message with descriptors");
  }
  const ucred& sender = *ancillary.credentials;
  TENON_RETURN_IF_ERROR(CheckUser(sender));
  if (client.bytes.empty()) {
    client.sender = sender.pid;
    if (client.is_attached) {
      client.message_by = Deadline::After(options_.handshake_patience);
      message_timer_ = Earlier(message_timer_, client.message_by);
    }
  } else if (client.sender != sender.pid) {
    return absl::DataLossError(
        absl::StrCat("torch: a message of two processes, ", client.sender,
                     " and ", sender.pid));
  }
  client.bytes.append(bytes, static_cast<size_t>(size));
  return absl::OkStatus();
}

// Whether the client stays.
bool TorchListener::HandleMessage(Clients::value_type& client) {
  Client& from = client.second;
  from.message_by = Deadline::Never();
  const absl::StatusOr<TorchMessage> message =
      ParseTorchMessage(std::exchange(from.bytes, std::string()));
  absl::Status status = message.status();
  if (status.ok() && message->pid != from.sender) {
    status = absl::DataLossError(absl::StrCat("torch: process ", from.sender,
                                              " says that it is process ",
                                              message->pid));
  }
  if (!status.ok()) {
    ++counts_.malformed;
    LogProblem(absl::StrCat("client ", client.first, ": ", status.message()));
    return false;
  }
  if (!from.is_attached) {
    from.is_attached = true;
    --unfinished_;
    ++counts_.attached;
  }
  if (message->is_free) {
    Deregister(*message);
    return true;
  }
  status = Register(client, *message);
  if (!status.ok()) {
    ++counts_.refused;
    LogProblem(absl::StrCat("refused: ", status.message()));
  }
  TENON_CRASH_POINT("torch.registered");
  return SendAnswer(from.socket.get(),
                    status.ok() ? kTorchAccepted : kTorchRefused);
}

absl::Status TorchListener::Register(Clients::value_type& client,
                                     const TorchMessage& message) {
  // The kernel knows its holders.
  if (IsMadeShmName(message.name)) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(const bool exists, CheckName(message.name));
  const Client& from = client.second;
  const bool is_own = message.pid == from.process->second.pid;
  TENON_ASSIGN_OR_RETURN(const auto process,
                         is_own
                             ? absl::StatusOr<Processes::iterator>(from.process)
                             : FindProcess(message.pid, -1));
  Process& holder = process->second;
  holder.via = client.first;
  if (holder.names.count(message.name) == 0) {
    if (holder.names.size() >= options_.max_names_per_process) {
      ForgetRemoved(process);
    }
    const bool is_new = names_.count(message.name) == 0;
    if (holder.names.size() >= options_.max_names_per_process ||
        (is_new && names_.size() >= options_.max_names)) {
      const absl::Status status = absl::ResourceExhaustedError(absl::StrCat(
          "'", message.name, "': ", holder.names.size(),
          " names are registered by process ", message.pid, " (limit ",
          options_.max_names_per_process, "), ", names_.size(),
          " in all (limit ", options_.max_names,
          "); raise --max_torch_names_per_process or --max_torch_names"));
      ForgetUnneeded(process);
      return status;
    }
    holder.names.insert(message.name);
  }
  const auto [entry, is_first] = names_.try_emplace(message.name);
  Name& name = entry->second;
  if (is_first) name.is_older = exists;
  ++name.holders[process->first];
  name.expires = Deadline::Never();
  return absl::OkStatus();
}

void TorchListener::Deregister(const TorchMessage& message) {
  const auto name = names_.find(message.name);
  const auto process = by_pid_.find(message.pid);
  // A forked child closes what its parent registered, and holds on.
  if (name == names_.end() || process == by_pid_.end()) return;
  const auto holder = name->second.holders.find(process->second);
  if (holder == name->second.holders.end() || holder->second == 0) return;
  if (--holder->second > 0) return;
  const auto closed = processes_.find(process->second);
  ++closed->second.connections;  // It is needed below.
  if (name->second.holders.size() > 1) {
    closed->second.names.erase(message.name);
    name->second.holders.erase(holder);
  }
  Examine(name);
  --closed->second.connections;
  ForgetUnneeded(closed);
}

// Names in flight on behalf of the process whose last receiver has removed them
// without having been registered here.
// Torch waits a second for an answer, so that a flood of registrations must not
// make the daemon do nothing else.
void TorchListener::ForgetRemoved(Processes::iterator process) {
  if (!process->second.rested_at.has_passed()) return;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  ++process->second.connections;  // It is needed below.
  const std::set<std::string> names = process->second.names;
  for (const std::string& held : names) {
    const auto name = names_.find(held);
    if (name != names_.end()) Examine(name);
  }
  --process->second.connections;
  process->second.rested_at =
      Deadline::After(kRest * absl::FromChrono(Clock::now() - begin));
}

// Removes the name unless a process holds it, or messages in flight do.
void TorchListener::Examine(Names::iterator name) {
  Name& held = name->second;
  for (const auto& holder : held.holders) {
    if (holder.second > 0) return;
  }
  const absl::StatusOr<std::optional<TorchFile>> file =
      ReadTorchFile(name->first);
  if (!file.ok()) {
    LogProblem(absl::StrCat("cannot examine: ", file.status().message()));
    if (absl::IsResourceExhausted(file.status())) {
      held.examine_at = Deadline::After(kExaminePause);
      name_timer_ = Earlier(name_timer_, held.examine_at);
    } else {
      Forget(name);  // It is not torch's.
    }
    return;
  }
  if (!file->has_value()) {
    Forget(name);
    return;
  }
  const int64_t in_flight = (*file)->references - held.lost;
  if (in_flight <= 0) {
    reclaimer_->RemoveTorchName(name->first);
    Forget(name);
  } else if (held.holders.empty() && held.expires.is_never()) {
    held.expires = Deadline::After(options_.keep_after_death);
    name_timer_ = Earlier(name_timer_, held.expires);
  }
}

bool TorchListener::MayHaveUnknownHolder(const std::string& name,
                                         const Name& held) {
  return held.is_older && MayCreatorLive(name);
}

void TorchListener::Forget(Names::iterator name) {
  for (const auto& holder : name->second.holders) {
    const auto process = processes_.find(holder.first);
    if (process == processes_.end()) continue;
    process->second.names.erase(name->first);
    ForgetUnneeded(process);
  }
  names_.erase(name);
}

void TorchListener::DropSlow() {
  message_timer_ = Deadline::Never();
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto next = std::next(client);
    if (client->second.message_by.has_passed()) {
      LogProblem(
          absl::StrCat("client ", client->first, ": torch: no message of ",
                       kTorchMessageBytes, " bytes within ",
                       absl::FormatDuration(options_.handshake_patience)));
      RemoveClient(client);
    } else {
      message_timer_ = Earlier(message_timer_, client->second.message_by);
    }
    client = next;
  }
}

void TorchListener::ExamineNames() {
  name_timer_ = Deadline::Never();
  Deadline earliest = Deadline::Never();
  for (auto name = names_.begin(); name != names_.end();) {
    const auto next = std::next(name);
    Name& held = name->second;
    if (held.expires.has_passed() && MayHaveUnknownHolder(name->first, held)) {
      held.expires = Deadline::After(options_.keep_after_death);
      earliest = Earlier(earliest, held.expires);
    } else if (held.expires.has_passed()) {
      LogProblem(absl::StrCat("'", name->first,
                              "' was in flight, and not received within ",
                              absl::FormatDuration(options_.keep_after_death),
                              " of the end of its last holder"));
      reclaimer_->RemoveTorchName(name->first);
      Forget(name);
    } else if (held.examine_at.has_passed()) {
      held.examine_at = Deadline::Never();
      Examine(name);
    } else {
      earliest = Earlier(earliest, Earlier(held.expires, held.examine_at));
    }
    name = next;
  }
  if (earliest.is_never()) return;
  // Rarely, as it looks at all names.
  const absl::Duration pause = std::max(kExaminePause, earliest.Remaining());
  name_timer_ = Earlier(name_timer_, Deadline::After(pause));
}

void TorchListener::LogProblem(const std::string& line) {
  if (options_.log_problem) options_.log_problem(line);
}

}  // namespace tenon
