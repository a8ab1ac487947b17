// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/manager.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

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
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/channel/peer.h"
#include "tenon/ipc/listener/listener.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/named_segments.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm_manager/manager_message.h"
#include "tenon/shm_manager/manager_stats.h"

namespace tenon {
namespace {

// After a client's end, names are examined so often, each time so much later.
// The first pause lets the clients of a group that is killed share one sweep. A
// pidfd is readable after the kernel has dropped the locks of its process, but
// a socket may be closed before them, and a child may hold them a little
// longer.
constexpr absl::Duration kSweepPauses[] = {
    absl::Milliseconds(2), absl::Milliseconds(50), absl::Seconds(1)};
// Before the next accept() at a limit of descriptors.
constexpr absl::Duration kAcceptPause = absl::Milliseconds(100);
// Accepted before the clients are served again.
constexpr int kAcceptedAtOnce = 64;
constexpr int kEventsAtOnce = 64;
// How often unfinished connections are examined.
constexpr absl::Duration kHandshakePause = absl::Seconds(1);

absl::Status CheckOptions(const ManagerOptions& options) {
  if (options.max_clients == 0) {
    return absl::InvalidArgumentError(
        "shm_manager: max_clients is 0; want at least 1");
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

ListenerOptions ListenerOptionsOf() {
  return {.channel = {.max_message_bytes = kMaxManagerMessage}};
}

UniqueFd OpenReserve() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

pollfd ForInput(int fd) { return {.fd = fd, .events = POLLIN, .revents = 0}; }

// -1 if it is not known: then the socket alone tells.
int PidFdOf(const Channel& channel) {
  const PeerProcess* peer = channel.peer();
  return peer != nullptr && peer->pid_fd ? peer->pid_fd->fd() : -1;
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
  return Begin(Listener::CreateAtPath(path, ListenerOptionsOf()), options);
}

absl::StatusOr<std::unique_ptr<Manager>> Manager::CreateOn(
    UniqueFd socket, const ManagerOptions& options) {
  TENON_RETURN_IF_ERROR(CheckOptions(options));
  return Begin(Listener::Adopt(std::move(socket), ListenerOptionsOf()),
               options);
}

absl::StatusOr<std::unique_ptr<Manager>> Manager::Begin(
    absl::StatusOr<Listener> listener, const ManagerOptions& options) {
  TENON_RETURN_IF_ERROR(listener.status());
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return PosixError(errno, "epoll_create1", "shm_manager");
  std::unique_ptr<Manager> manager(
      new Manager(*std::move(listener), std::move(epoll), options));
  manager->Sweep();
  return manager;
}

absl::Status Manager::Run(int stop_fd) {
  idle_at_ = Deadline::After(options_.idle_exit);
  absl::Status status;
  for (bool stopped = false; status.ok() && !stopped && !IsIdle();) {
    status = Serve(stop_fd, &stopped);
  }
  TENON_CRASH_POINT("manager.ends");
  // In this order: a process that finds no socket any more starts the next
  // daemon, which may examine the names meanwhile.
  listener_.reset();
  TENON_CRASH_POINT("manager.closed");
  clients_.clear();
  kept_.clear();
  Sweep();
  return status;
}

const ManagerStats& Manager::stats() {
  stats_.clients = clients_.size();
  stats_.kept_names = kept_.size();
  if (listener_) stats_.refused = listener_->counts().refused + over_quota_;
  return stats_;
}

bool Manager::IsIdle() const {
  return clients_.empty() && idle_at_.has_passed() &&
         listener_->counts().unfinished == 0;
}

Deadline Manager::NextTimer(bool accepts) const {
  Deadline next = Earlier(sweep_at_, drop_at_);
  if (!accepts) next = Earlier(next, accept_at_);
  if (listener_->counts().unfinished > 0) {
    next = Earlier(next, Deadline::After(kHandshakePause));
  } else if (clients_.empty()) {
    next = Earlier(next, idle_at_);
  }
  return next;
}

// One wait, and all that it reports.
absl::Status Manager::Serve(int stop_fd, bool* stopped) {
  const bool accepts = accept_at_.has_passed();
  pollfd fds[] = {ForInput(stop_fd), ForInput(accepts ? listener_->fd() : -1),
                  ForInput(epoll_.get())};
  TENON_RETURN_IF_ERROR(
      PollUntil(fds, std::size(fds), NextTimer(accepts)).status());
  *stopped = fds[0].revents != 0;
  if (fds[2].revents != 0) ServeClients();
  // Also without an event, to drop connections that stay silent.
  if (accepts && (fds[1].revents != 0 || listener_->counts().unfinished > 0)) {
    AcceptClients();
  }
  if (drop_at_.has_passed()) DropExpired();
  if (sweep_at_.has_passed()) {
    ++sweeps_done_;
    sweep_at_ = sweeps_done_ < std::size(kSweepPauses)
                    ? Deadline::After(kSweepPauses[sweeps_done_])
                    : Deadline::Never();
    Sweep();
  }
  return absl::OkStatus();
}

void Manager::ServeClients() {
  epoll_event events[kEventsAtOnce];
  const int count = epoll_wait(epoll_.get(), events, kEventsAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    const auto client = clients_.find(events[i].data.u64 / 2);
    if (client == clients_.end()) continue;  // Removed by an event before.
    const bool has_ended = events[i].data.u64 % 2 == 1;
    if (has_ended || !HandleMessage(*client)) RemoveClient(client);
  }
}

// An event has the client's key, twice; plus 1 for that of its pidfd.
absl::Status Manager::Watch(const Clients::value_type& client) {
  const auto& [key, held] = client;
  const int fds[] = {held.channel.fd(), PidFdOf(held.channel)};
  for (size_t i = 0; i < std::size(fds); ++i) {
    epoll_event event = {.events = EPOLLIN, .data = {.u64 = 2 * key + i}};
    if (fds[i] >= 0 &&
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fds[i], &event) != 0) {
      return PosixError(errno, "epoll_ctl", "a client");
    }
  }
  return absl::OkStatus();
}

// Closing them would not do that while another process has them open.
void Manager::Unwatch(const Channel& channel) {
  for (const int fd : {channel.fd(), PidFdOf(channel)}) {
    if (fd >= 0) epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  }
}

void Manager::RemoveClient(Clients::iterator client) {
  Unwatch(client->second.channel);
  const Deadline expires = Deadline::After(options_.keep_after_death);
  for (auto& [name, kept] : kept_) {
    if (kept.client != client->first) continue;
    kept.expires = expires;
    drop_at_ = Earlier(drop_at_, expires);
  }
  clients_.erase(client);
  ScheduleSweeps();
}

void Manager::AcceptClients() {
  for (int i = 0; i < kAcceptedAtOnce; ++i) {
    absl::StatusOr<Channel> channel = listener_->Accept(Deadline::Passed());
    if (channel.ok()) {
      AddClient(*std::move(channel));
      continue;
    }
    if (!absl::IsDeadlineExceeded(channel.status())) {
      Log(LogKind::kProblem,
          absl::StrCat("cannot accept: ", channel.status().message()));
      if (absl::IsResourceExhausted(channel.status())) RefuseAtLimit();
      accept_at_ = Deadline::After(kAcceptPause);
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
  absl::Status status;
  if (clients_.size() < options_.max_clients) {
    const auto client =
        clients_.emplace(next_client_++, Client{.channel = std::move(channel)})
            .first;
    status = Watch(*client);
    if (status.ok()) return;
    channel = std::move(client->second.channel);
    Unwatch(channel);
    clients_.erase(client);
  } else {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "shm_manager: ", clients_.size(),
        " clients are attached, the most that it takes; raise --max_clients"));
  }
  ++over_quota_;
  SendReply(channel, {.status = status});
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
    Log(LogKind::kProblem, absl::StrCat("client ", client.first, ": ",
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
  if (request.version != kManagerVersion) {
    is_attached = false;
    return absl::FailedPreconditionError(absl::StrCat(
        "shm_manager: this daemon speaks version ", kManagerVersion,
        " of its protocol, the client version ", request.version,
        "; end the daemon, or use another group"));
  }
  if (request.kind == ManagerRequestKind::kAttach) {
    if (!is_attached) ++stats_.attached;
    TENON_CRASH_POINT("manager.attached");
    is_attached = true;
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
  size_t& kept_for_client = client.second.kept_names;
  if (!IsMadeShmName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("shm_manager: cannot keep '", name,
                     "': a name that a program chose lives with its holders"));
  }
  const auto found = kept_.find(name);
  if (found != kept_.end()) {
    KeptName& kept = found->second;
    ++kept.times;
    if (clients_.count(kept.client) == 0) {
      kept.client = client.first;
      kept.expires = Deadline::Never();
      ++kept_for_client;
    }
    return absl::OkStatus();
  }
  if (kept_for_client >= options_.max_kept_names_per_client ||
      kept_.size() >= options_.max_kept_names) {
    return absl::ResourceExhaustedError(
        absl::StrCat("shm_manager: cannot keep '", name, "': ", kept_for_client,
                     " names are kept for this client (limit ",
                     options_.max_kept_names_per_client, "), ", kept_.size(),
                     " in all (limit ", options_.max_kept_names,
                     "); release some, or raise --max_kept_names_per_client or "
                     "--max_kept_names"));
  }
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Segment::Open(name, SegmentKind::kOwnerWritten));
  TENON_CRASH_POINT("manager.name_held");
  const uint64_t bytes = segment.size_bytes();
  if (bytes > options_.max_kept_bytes - kept_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "shm_manager: cannot keep '", name, "': its ", bytes, " bytes and the ",
        kept_bytes_, " that are kept exceed the limit of ",
        options_.max_kept_bytes, "; release some, or raise --max_kept_bytes"));
  }
  kept_bytes_ += bytes;
  kept_.emplace(
      name, KeptName{.segment = std::move(segment), .client = client.first});
  ++kept_for_client;
  return absl::OkStatus();
}

absl::Status Manager::ReleaseName(const std::string& name) {
  const auto found = kept_.find(name);
  if (found == kept_.end()) {
    return absl::NotFoundError(
        absl::StrCat("shm_manager: '", name, "' is not kept"));
  }
  if (--found->second.times > 0) return absl::OkStatus();
  return Drop(found);
}

absl::Status Manager::Drop(KeptNames::iterator kept) {
  const auto client = clients_.find(kept->second.client);
  if (client != clients_.end()) --client->second.kept_names;
  kept_bytes_ -= kept->second.segment.size_bytes();
  const std::string name = kept->first;
  kept_.erase(kept);
  TENON_CRASH_POINT("manager.name_dropped");
  const absl::StatusOr<bool> removed = ReclaimDeadName(name);
  if (removed.ok() && *removed) ++stats_.removed_names;
  return removed.status();
}

void Manager::DropExpired() {
  drop_at_ = Deadline::Never();
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    const auto next = std::next(kept);
    if (kept->second.expires.has_passed()) {
      Log(LogKind::kProblem,
          absl::StrCat("'", kept->first, "' was kept, and not released within ",
                       absl::FormatDuration(options_.keep_after_death),
                       " of the end of its client"));
      Drop(kept).IgnoreError();
    } else {
      drop_at_ = Earlier(drop_at_, kept->second.expires);
    }
    kept = next;
  }
}

// A sweep that is due is not put off by further ends.
void Manager::ScheduleSweeps() {
  sweeps_done_ = 0;
  sweep_at_ = Earlier(sweep_at_, Deadline::After(kSweepPauses[0]));
  if (clients_.empty()) idle_at_ = Deadline::After(options_.idle_exit);
}

void Manager::Sweep() {
  ++stats_.sweeps;
  const absl::StatusOr<std::vector<NamedSegment>> removed = ReclaimDeadNames();
  if (!removed.ok()) {
    ++stats_.failed_sweeps;
    Log(LogKind::kProblem,
        absl::StrCat("cannot examine names: ", removed.status().message()));
    return;
  }
  for (const NamedSegment& segment : *removed) {
    ++stats_.removed_names;
    stats_.removed_bytes += segment.allocated_bytes;
    Log(LogKind::kEvent, absl::StrCat("removed '", segment.name, "' (",
                                      segment.allocated_bytes, " bytes)"));
  }
}

void Manager::Log(LogKind kind, const std::string& line) const {
  if (options_.log) options_.log(kind, line);
}

}  // namespace tenon
