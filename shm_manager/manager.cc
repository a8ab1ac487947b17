// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/manager.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm_manager/manager_message.h"
#include "tenon/shm_manager/manager_stats.h"
#include "tenon/shm_manager/name_reclaimer.h"
#include "tenon/shm_manager/torch_listener.h"

namespace tenon {
namespace {

// Before the next accept() at a limit of descriptors.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
// Accepted before the clients are served again.
constexpr int kAcceptedAtOnce = 64;
constexpr int kEventsAtOnce = 64;
// How often unfinished connections are examined.
constexpr absl::Duration kHandshakePause = absl::Seconds(1);
// How often kept names are examined.
constexpr absl::Duration kExaminePause = absl::Seconds(1);
// And at a quota.
constexpr absl::Duration kExamineAgainPause = absl::Milliseconds(20);
// Of the log, for problems that clients cause.
constexpr absl::Duration kLogPause = absl::Seconds(1);
// A starter attaches after it has learned that the daemon listens.
constexpr absl::Duration kFirstClientPatience = absl::Seconds(1);

// Events: those of a client have twice its number; that of a process's pidfd
// has twice the number of the process, plus 1. Both count from 2.
constexpr uint64_t kStopEvent = 0;
constexpr uint64_t kListenerEvent = 1;
constexpr uint64_t kTorchEvent = 2;

absl::Status CheckOptions(const ManagerOptions& options) {
  if (options.max_clients == 0) {
    return absl::InvalidArgumentError(
        "shm_manager: max_clients is 0; want at least 1");
  }
  if (options.max_clients_per_process == 0) {
    return absl::InvalidArgumentError(
        "shm_manager: max_clients_per_process is 0; want at least 1");
  }
  if (!options.torch_path.empty() &&
      options.handshake_patience <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "shm_manager: handshake_patience must be positive");
  }
  if (options.idle_exit < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "shm_manager: idle_exit must not be negative");
  }
  if (options.keep_after_death < absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "shm_manager: keep_after_death must not be negative");
  }
  return absl::OkStatus();
}

ListenerOptions ListenerOptionsOf(const ManagerOptions& options) {
  return {.channel = {.max_message_bytes = kMaxManagerMessage},
          .handshake_patience = options.handshake_patience};
}

UniqueFd OpenReserve() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

// -1 if it is not known: then only a hang-up shows the end of the process.
int PidFdOf(const Channel& channel) {
  const PeerProcess* peer = channel.peer();
  return peer != nullptr && peer->pid_fd ? peer->pid_fd->fd() : -1;
}

// Without its pidfd: that of the process is watched once.
Channel WithoutIdentity(Channel& channel) {
  return Channel::AdoptReleased(channel.Release(),
                                {.max_message_bytes = kMaxManagerMessage});
}

// For epoll_wait().
int MillisecondsUntil(Deadline deadline) {
  const absl::Duration wait = deadline.Remaining();
  if (wait == absl::InfiniteDuration()) return -1;
  return static_cast<int>(absl::ToInt64Milliseconds(
      absl::Ceil(std::min(wait, absl::Hours(1)), absl::Milliseconds(1))));
}

bool SendReply(Channel& channel, const ManagerReply& reply) {
  return channel.Send(EncodeManagerReply(reply), {}, Deadline::Passed()).ok();
}

}  // namespace

Manager::Manager(Listener listener, UniqueFd epoll,
                 const ManagerOptions& options)
    : listener_(std::move(listener)),
      options_(options),
      epoll_(std::move(epoll)),
      reserve_(OpenReserve()) {}

absl::StatusOr<std::unique_ptr<Manager>> Manager::Create(
    absl::string_view path, const ManagerOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  return Begin(Listener::CreateAtPath(path, ListenerOptionsOf(options)),
               options);
}

absl::StatusOr<std::unique_ptr<Manager>> Manager::CreateOn(
    UniqueFd socket, const ManagerOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  return Begin(Listener::Adopt(std::move(socket), ListenerOptionsOf(options)),
               options);
}

absl::StatusOr<std::unique_ptr<Manager>> Manager::Begin(
    absl::StatusOr<Listener> listener, const ManagerOptions& options) {
  TENON_RETURN_IF_ERROR(listener.status());
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return PosixError(errno, "epoll_create1", "shm_manager");
  std::unique_ptr<Manager> manager(
      new Manager(*std::move(listener), std::move(epoll), options));
  TENON_RETURN_IF_ERROR(
      manager->Watch(manager->listener_->fd(), kListenerEvent));
  TENON_RETURN_IF_ERROR(manager->ListenForTorch());
  return manager;
}

absl::Status Manager::ListenForTorch() {
  if (options_.torch_path.empty()) return absl::OkStatus();
  TENON_ASSIGN_OR_RETURN(
      torch_,
      TorchListener::Create(
          options_.torch_path,
          {.max_clients = options_.max_clients,
           .max_clients_per_process = options_.max_clients_per_process,
           .max_names = options_.max_torch_names,
           .max_names_per_process = options_.max_torch_names_per_process,
           .keep_after_death = options_.keep_after_death,
           .handshake_patience = options_.handshake_patience,
           .log_problem = [this](const std::string& line) {
             LogProblem(line);
           }}));
  return Watch(torch_->fd(), kTorchEvent);
}

absl::Status Manager::Run(int stop_fd) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, "shm_manager"));
  if (stop_fd >= 0) TENON_RETURN_IF_ERROR(Watch(stop_fd, kStopEvent));
  TENON_ASSIGN_OR_RETURN(reclaimer_, NameReclaimer::Start(options_.log));
  idle_at_ =
      Deadline::After(std::max(options_.idle_exit, kFirstClientPatience));
  absl::Status status;
  for (bool stopped = false; status.ok() && !stopped && !IsIdle();) {
    status = Serve(&stopped);
  }
  TENON_CRASH_POINT("manager.ends");
  // In this order: a process that finds no socket any more starts the next
  // daemon, which may examine the names meanwhile.
  listener_.reset();
  TENON_CRASH_POINT("manager.closed");
  if (torch_) torch_->Close(reclaimer_.get());
  clients_.clear();
  kept_.clear();
  processes_.clear();
  reclaimer_.reset();  // Sweeps once more.
  return status;
}

ManagerStats Manager::stats() {
  ManagerStats stats = stats_;
  stats.clients = clients_.size();
  stats.kept_names = kept_.size();
  if (listener_) stats.refused = listener_->counts().refused + over_quota_;
  if (torch_) {
    const TorchListener::Counts counts = torch_->counts();
    stats.clients += counts.clients;
    stats.attached += counts.attached;
    stats.refused += counts.refused;
    stats.malformed += counts.malformed;
  }
  if (reclaimer_) {
    const NameReclaimer::Counts counts = reclaimer_->counts();
    stats.sweeps = counts.sweeps;
    stats.failed_sweeps = counts.failed_sweeps;
    stats.removed_names = counts.removed_names;
    stats.removed_bytes = counts.removed_bytes;
  }
  return stats;
}

bool Manager::IsIdle() const {
  return clients_.empty() && (!torch_ || torch_->IsIdle()) &&
         idle_at_.has_passed() && listener_->counts().unfinished == 0;
}

Deadline Manager::NextTimer() const {
  Deadline next = Earlier(Earlier(accept_at_, attach_by_), examine_at_);
  if (listener_->counts().unfinished > 0) {
    next = Earlier(next, Deadline::After(kHandshakePause));
  } else if (clients_.empty() && (!torch_ || torch_->IsIdle())) {
    next = Earlier(next, idle_at_);
  }
  return torch_ ? Earlier(next, torch_->NextTimer()) : next;
}

absl::Status Manager::Watch(int fd, uint64_t event_data) {
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = event_data}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) {
    return absl::OkStatus();
  }
  return PosixError(errno, "epoll_ctl", "shm_manager");
}

// Closing it would not do that while another process has it open.
void Manager::Unwatch(int fd) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

// One wait, and all that it reports.
absl::Status Manager::Serve(bool* stopped) {
  epoll_event events[kEventsAtOnce];
  const int count = epoll_wait(epoll_.get(), events, kEventsAtOnce,
                               MillisecondsUntil(NextTimer()));
  if (count < 0 && errno != EINTR) {
    return PosixError(errno, "epoll_wait", "shm_manager");
  }
  bool connects = false;
  bool torch_has_events = false;
  for (int i = 0; i < count; ++i) {
    const uint64_t event = events[i].data.u64;
    if (event == kStopEvent) {
      *stopped = true;
    } else if (event == kListenerEvent) {
      connects = true;
    } else if (event == kTorchEvent) {
      torch_has_events = true;
    } else if (event % 2 == 1) {
      const auto process = processes_.find(event / 2);
      if (process != processes_.end()) EndProcess(process);
    } else {
      const auto client = clients_.find(event / 2);
      // It may have been removed by an event before.
      if (client != clients_.end() && !HandleMessage(*client)) {
        RemoveClient(client);
      }
    }
  }
  if (accept_at_.has_passed()) PauseAccepting(false);
  // Also without an event, to drop connections that stay silent.
  if (accept_at_.is_never() &&
      (connects || listener_->counts().unfinished > 0)) {
    AcceptClients();
  }
  if (attach_by_.has_passed()) DropSilent();
  if (examine_at_.has_passed()) ExamineKeptNames();
  if (torch_ && (torch_has_events || torch_->NextTimer().has_passed())) {
    ServeTorch();
  }
  return absl::OkStatus();
}

void Manager::ServeTorch() {
  const bool was_idle = torch_->IsIdle();
  torch_->Serve(reclaimer_.get());
  if (!was_idle && torch_->IsIdle()) {
    idle_at_ = Deadline::After(options_.idle_exit);
  }
}

void Manager::PauseAccepting(bool pause) {
  epoll_event event = {.events = pause ? 0u : EPOLLIN,
                       .data = {.u64 = kListenerEvent}};
  epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener_->fd(), &event);
  accept_at_ = pause ? Deadline::After(kAcceptPause) : Deadline::Never();
}

void Manager::RemoveClient(Clients::iterator client) {
  Unwatch(client->second.channel.fd());
  const bool was_attached = client->second.is_attached;
  const auto process = client->second.process;
  clients_.erase(client);
  if (was_attached) reclaimer_->Schedule();
  if (clients_.empty()) idle_at_ = Deadline::After(options_.idle_exit);
  if (--process->second.connections > 0) return;
  process->second.names_expire = Deadline::After(options_.keep_after_death);
  // The kernel may have closed the socket long before it drops the locks.
  if (!process->second.has_attached ||
      processes_.size() > 2 * options_.max_clients) {
    ForgetIdentity(process->second);
  }
  ForgetUnneeded(process);
}

void Manager::ForgetIdentity(Process& process) {
  if (!process.identity) return;
  Unwatch(PidFdOf(*process.identity));
  process.identity.reset();
}

void Manager::ForgetUnneeded(Processes::iterator process) {
  const Process& held = process->second;
  if (held.connections == 0 && held.kept_names == 0 && !held.identity) {
    processes_.erase(process);
  }
}

// Also if forked children have its sockets open.
void Manager::EndProcess(Processes::iterator process) {
  const bool has_attached = process->second.has_attached;
  ForgetIdentity(process->second);
  ++process->second.connections;  // It is needed below.
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto next = std::next(client);
    if (client->second.process == process) {
      // Its last request, if any, still counts.
      HandleMessage(*client);
      RemoveClient(client);
    }
    client = next;
  }
  --process->second.connections;
  process->second.names_expire = Deadline::After(options_.keep_after_death);
  process->second.pid = -1;  // The number may be reused.
  ForgetUnneeded(process);
  if (has_attached) reclaimer_->Schedule();
}

void Manager::DropSilent() {
  attach_by_ = Deadline::Never();
  for (auto client = clients_.begin(); client != clients_.end();) {
    const auto next = std::next(client);
    if (!client->second.is_attached) {
      if (client->second.attach_by.has_passed()) {
        RemoveClient(client);
      } else {
        attach_by_ = Earlier(attach_by_, client->second.attach_by);
      }
    }
    client = next;
  }
}

void Manager::AcceptClients() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    absl::StatusOr<Channel> channel = listener_->Accept(Deadline::Passed());
    if (channel.ok()) {
      AddClient(*std::move(channel));
      continue;
    }
    if (!absl::IsDeadlineExceeded(channel.status())) {
      LogProblem(absl::StrCat("cannot accept: ", channel.status().message()));
      if (absl::IsResourceExhausted(channel.status())) RefuseAtLimit();
      PauseAccepting(true);
    }
    return;
  }
}

// A process that connects learns of the limit at once, instead of waiting in
// the kernel's queue. The reserve lets accept() succeed; the handshake then
// fails, and the listener tells the peer why.
void Manager::RefuseAtLimit() {
  reserve_.Reset();
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    absl::StatusOr<Channel> channel = listener_->Accept(Deadline::Passed());
    if (channel.ok()) {  // Meanwhile a descriptor has become free.
      AddClient(*std::move(channel));
    } else if (absl::IsDeadlineExceeded(channel.status())) {
      break;
    }
  }
  reserve_ = OpenReserve();
}

void Manager::AddClient(Channel channel) {
  const absl::Status status = TryAddClient(&channel);
  if (status.ok()) return;
  ++over_quota_;
  SendReply(channel, {.status = status});
}

// The record of the process at the other end, which may be a new one.
absl::StatusOr<Manager::Processes::iterator> Manager::FindProcess(
    const Channel& channel) {
  const pid_t pid = channel.peer() == nullptr ? 0 : channel.peer()->pid;
  const RandomId id =
      channel.peer() == nullptr ? RandomId{} : channel.peer()->id;
  auto found = std::find_if(
      processes_.begin(), processes_.end(), [&](const auto& entry) {
        return entry.second.pid == pid && (pid != 0 || entry.second.id == id);
      });
  // A dead one had the number before.
  if (found != processes_.end() && found->second.identity &&
      found->second.identity->peer()->pid_fd->HasEnded()) {
    EndProcess(found);
    found = processes_.end();
  }
  if (found != processes_.end()) {
    if (found->second.connections < options_.max_clients_per_process) {
      return found;
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "shm_manager: ", found->second.connections,
        " connections of this process, the most that a process may have; share "
        "a ManagerClient, or raise --max_clients_per_process"));
  }
  return processes_
      .emplace(next_number_++,
               Process{.identity = std::nullopt, .pid = pid, .id = id})
      .first;
}

// On an error the socket stays in `channel`.
absl::Status Manager::TryAddClient(Channel* channel) {
  if (clients_.size() >= options_.max_clients) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "shm_manager: ", clients_.size(),
        " clients are attached, the most that it takes; raise --max_clients, "
        "and RLIMIT_NOFILE of the daemon to 4 for each client"));
  }
  TENON_ASSIGN_OR_RETURN(const auto process, FindProcess(*channel));
  const uint64_t number = next_number_++;
  absl::Status status = Watch(channel->fd(), 2 * number);
  const int pid_fd = PidFdOf(*channel);
  const bool is_new = !process->second.identity && pid_fd >= 0;
  if (status.ok() && is_new) {
    status = Watch(pid_fd, 2 * process->first + 1);
  }
  if (!status.ok()) {
    Unwatch(channel->fd());
    ForgetUnneeded(process);
    return status;
  }
  Channel socket = WithoutIdentity(*channel);
  if (is_new) process->second.identity = std::move(*channel);
  ++process->second.connections;
  process->second.names_expire = Deadline::Never();
  const Deadline attach_by = Deadline::After(options_.handshake_patience);
  attach_by_ = Earlier(attach_by_, attach_by);
  clients_.emplace(number, Client{.channel = std::move(socket),
                                  .process = process,
                                  .attach_by = attach_by});
  return absl::OkStatus();
}

// Whether the client stays.
bool Manager::HandleMessage(Clients::value_type& client) {
  Channel& channel = client.second.channel;
  const absl::StatusOr<Message> message =
      channel.Receive(Deadline::Passed(), 0);
  if (absl::IsDeadlineExceeded(message.status())) return true;
  if (absl::IsUnavailable(message.status())) return false;
  const absl::StatusOr<ManagerRequest> request =
      message.ok() ? ParseManagerRequest(message->bytes) : message.status();
  if (!request.ok()) {
    ++stats_.malformed;
    LogProblem(absl::StrCat("client ", client.first, ": ",
                            request.status().message()));
    return false;
  }
  ManagerReply reply = {.status = Answer(client, *request)};
  if (request->kind == ManagerRequestKind::kQueryStats) reply.stats = stats();
  return SendReply(channel, reply) && client.second.is_attached;
}

absl::Status Manager::Answer(Clients::value_type& client,
                             const ManagerRequest& request) {
  bool& is_attached = client.second.is_attached;
  if (request.version != ManagerVersion()) {
    is_attached = false;
    return absl::FailedPreconditionError(absl::StrCat(
        "shm_manager: this daemon speaks version ", ManagerVersion(),
        " of its protocol, the client version ", request.version,
        "; end the daemon, or use another group"));
  }
  if (request.kind == ManagerRequestKind::kAttach) {
    if (!is_attached) ++stats_.attached;
    TENON_CRASH_POINT("manager.attached");
    is_attached = true;
    client.second.process->second.has_attached = true;
    return absl::OkStatus();
  }
  if (!is_attached) {
    return absl::FailedPreconditionError(
        "shm_manager: a request before the client has attached");
  }
  switch (request.kind) {
    case ManagerRequestKind::kKeepName:
      return KeepName(client, request.name);
    case ManagerRequestKind::kReleaseName:
      return ReleaseName(request.name);
    default:
      return absl::OkStatus();
  }
}

// Random names only: to open a chosen one may mean to wait for a process that
// is removing it, and its file may change.
absl::Status Manager::KeepName(Clients::value_type& client,
                               const std::string& name) {
  const auto process = client.second.process;
  size_t& kept_for_process = process->second.kept_names;
  if (!IsMadeShmName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shm_manager: cannot keep '", name,
                     "': a name that a program chose lives with its holders"));
  }
  const auto found = kept_.find(name);
  if (found != kept_.end()) {
    KeptName& kept = found->second;
    ++kept.times;
    const auto before = kept.process;
    if (before->second.connections == 0) {
      kept.process = process;
      ++kept_for_process;
      --before->second.kept_names;
      ForgetUnneeded(before);
    }
    return absl::OkStatus();
  }
  if (!MayKeep(process->second) && examine_again_at_.has_passed()) {
    ExamineKeptNames();
  }
  if (!MayKeep(process->second)) {
    const size_t kept_in_all = kept_.size() + reclaimer_->pending();
    return absl::ResourceExhaustedError(absl::StrCat(
        "shm_manager: cannot keep '", name, "': ", kept_for_process,
        " names are kept for this process (limit ",
        options_.max_kept_names_per_client, "), ", kept_in_all,
        " in all (limit ", options_.max_kept_names, "), of these ",
        CountOfAbsent(), " of processes that have ended or detached, for ",
        absl::FormatDuration(options_.keep_after_death),
        " from then on (--keep_after_death); release some, lower "
        "--keep_after_death, or raise --max_kept_names_per_client or "
        "--max_kept_names"));
  }
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Segment::Open(name, SegmentKind::kOwnerWritten));
  TENON_CRASH_POINT("manager.name_held");
  const uint64_t bytes = segment.size_bytes();
  if (bytes > options_.max_kept_bytes - kept_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("shm_manager: cannot keep '", name, "': its ",
                     SizeText(bytes), " and the ", SizeText(kept_bytes_),
                     " that are kept exceed the limit of ",
                     SizeText(options_.max_kept_bytes),
                     "; release some, or raise --max_kept_bytes"));
  }
  kept_bytes_ += bytes;
  kept_.emplace(name,
                KeptName{.segment = std::move(segment), .process = process});
  ++kept_for_process;
  if (examine_at_.is_never()) examine_at_ = Deadline::After(kExaminePause);
  return absl::OkStatus();
}

absl::Status Manager::ReleaseName(const std::string& name) {
  const auto found = kept_.find(name);
  if (found == kept_.end()) {
    return absl::NotFoundError(
        absl::StrCat("shm_manager: '", name, "' is not kept"));
  }
  if (--found->second.times == 0) Drop(found);
  return absl::OkStatus();
}

void Manager::Drop(KeptNames::iterator kept) {
  const auto process = kept->second.process;
  --process->second.kept_names;
  ForgetUnneeded(process);
  kept_bytes_ -= kept->second.segment.size_bytes();
  reclaimer_->Release(std::move(kept->second.segment));
  kept_.erase(kept);
}

// Each release in progress has a descriptor open.
bool Manager::MayKeep(const Process& process) const {
  return process.kept_names < options_.max_kept_names_per_client &&
         kept_.size() + reclaimer_->pending() < options_.max_kept_names;
}

size_t Manager::CountOfAbsent() const {
  size_t names = 0;
  for (const auto& [name, kept] : kept_) {
    names += kept.process->second.connections == 0 ? 1 : 0;
  }
  return names;
}

// A name that its creator has removed cannot be opened any more; to hold its
// memory would serve no process.
void Manager::ExamineKeptNames() {
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const auto next = std::next(kept);
    struct stat file;
    if (fstat(kept->second.segment.fd(), &file) == 0 && file.st_nlink == 0) {
      Drop(kept);
    } else if (kept->second.process->second.names_expire.has_passed()) {
      LogProblem(absl::StrCat("'", kept->first,
                              "' was kept, and not released within ",
                              absl::FormatDuration(options_.keep_after_death),
                              " of the end of its client"));
      Drop(kept);
    }
    kept = next;
  }
  examine_at_ =
      kept_.empty() ? Deadline::Never() : Deadline::After(kExaminePause);
  examine_again_at_ = Deadline::After(kExamineAgainPause);
}

// Clients cause it, and must not fill the log.
void Manager::LogProblem(const std::string& line) {
  if (!options_.log) return;
  if (!log_at_.has_passed()) {
    ++unlogged_;
    return;
  }
  log_at_ = Deadline::After(kLogPause);
  const uint64_t unlogged = std::exchange(unlogged_, 0);
  options_.log(LogKind::kProblem, unlogged == 0
                                      ? line
                                      : absl::StrCat(line, " (and ", unlogged,
                                                     " problems before it)"));
}

}  // namespace tenon
