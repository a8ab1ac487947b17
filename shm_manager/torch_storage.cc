// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/torch_storage.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm_manager/torch_file.h"
#include "tenon/shm_manager/torch_message.h"

namespace tenon {
namespace {

// "-" and 32 digits (shm_name.h).
constexpr size_t kRandomLength = 33;

// The count of references; torch's processes change it as std::atomic<int>.
std::atomic_ref<int32_t> References(const WritableMapping& mapping) {
  return std::atomic_ref<int32_t>(*reinterpret_cast<int32_t*>(mapping.data()));
}

absl::Status SetTimeout(int socket, Deadline deadline) {
  if (deadline.is_never()) return absl::OkStatus();
  // Zero would mean none.
  const timeval timeout =
      absl::ToTimeval(std::max(deadline.Remaining(), absl::Milliseconds(1)));
  for (const int option : {SO_SNDTIMEO, SO_RCVTIMEO}) {
    if (setsockopt(socket, SOL_SOCKET, option, &timeout, sizeof(timeout)) !=
        0) {
      return PosixError(errno, "setsockopt", "a manager of torch");
    }
  }
  return absl::OkStatus();
}

absl::Status ErrorOfManager(int error, const char* call,
                            const std::string& path) {
  if (error == EAGAIN) {
    return absl::DeadlineExceededError(
        absl::StrCat("torch's manager at ", path, " has not answered in time"));
  }
  if (error == ECONNREFUSED || error == ENOENT || error == EPIPE ||
      error == ECONNRESET) {
    return absl::UnavailableError(
        absl::StrCat("no manager of torch listens at ", path, " (any more)"));
  }
  return PosixError(error, call, path);
}

absl::StatusOr<UniqueFd> ConnectToManager(const std::string& path,
                                          Deadline deadline) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path) ||
      path.find('\0') != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("TorchStorage::Open(): the path of the manager has ",
                     path.size(), " bytes, or a zero byte in it; want at most ",
                     sizeof(address.sun_path) - 1));
  }
  path.copy(address.sun_path, path.size());
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return PosixError(errno, "socket", "AF_UNIX");
  TENON_RETURN_IF_ERROR(SetTimeout(socket.get(), deadline));
  if (RetryOnEintr([&] {
        return connect(socket.get(), reinterpret_cast<sockaddr*>(&address),
                       sizeof(address));
      }) != 0) {
    return ErrorOfManager(errno, "connect", path);
  }
  return socket;
}

absl::Status Register(int socket, const std::string& name,
                      const std::string& path) {
  const std::string message =
      EncodeTorchMessage({.pid = getpid(), .name = name});
  if (RetryOnEintr([&] {
        return send(socket, message.data(), message.size(), MSG_NOSIGNAL);
      }) != static_cast<ssize_t>(message.size())) {
    return ErrorOfManager(errno, "send", path);
  }
  char answer[kTorchAccepted.size()];
  const ssize_t size = RetryOnEintr(
      [&] { return recv(socket, answer, sizeof(answer), MSG_WAITALL); });
  if (size == 0) return ErrorOfManager(ECONNRESET, "recv", path);
  if (size < 0) return ErrorOfManager(errno, "recv", path);
  if (absl::string_view(answer, static_cast<size_t>(size)) == kTorchAccepted) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "torch's manager at ", path, " does not register '", name, "'"));
}

void Deregister(int socket, const std::string& name) {
  const std::string message =
      EncodeTorchMessage({.pid = getpid(), .is_free = true, .name = name});
  send(socket, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

// A connection to the manager of a name that is registered there.
class Registration {
 public:
  Registration() = default;
  Registration(UniqueFd socket, std::string name)
      : socket_(std::move(socket)), name_(std::move(name)) {}
  ~Registration() {
    if (socket_.valid() && fork_count_ == ForkCount()) {
      Deregister(socket_.get(), name_);
    }
  }
  Registration(Registration&&) = default;
  Registration& operator=(Registration&&) = delete;

 private:
  UniqueFd socket_;
  std::string name_;
  uint64_t fork_count_ = ForkCount();
};

}  // namespace

// Destroyed from below: the mapping, the segment, the registration.
class TorchStorage::State {
 public:
  State(Registration registration, Segment segment, WritableMapping mapping,
        size_t size_bytes, bool drops)
      : registration_(std::move(registration)),
        segment_(std::move(segment)),
        mapping_(std::move(mapping)),
        size_bytes_(size_bytes),
        drops_(drops),
        name_(absl::StrCat("/", segment_.name())) {}
  ~State() {
    if (!drops_ || fork_count_ != ForkCount()) return;
    TENON_CRASH_POINT("torch.client.closes");
    if (References(mapping_).fetch_sub(1) != 1) return;
    TENON_CRASH_POINT("torch.client.dropped");
    // Not an error if a manager has removed it.
    RemoveShmName(segment_.name()).IgnoreError();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::span<std::byte> bytes() const {
    return mapping_.bytes().subspan(kTorchHeaderBytes, size_bytes_);
  }
  const std::string& name() const { return name_; }

 private:
  Registration registration_;
  Segment segment_;
  WritableMapping mapping_;
  size_t size_bytes_;
  bool drops_;  // Its reference.
  std::string name_;
  uint64_t fork_count_ = ForkCount();
};

TorchStorage::TorchStorage(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
TorchStorage::~TorchStorage() = default;
TorchStorage::TorchStorage(TorchStorage&&) noexcept = default;
TorchStorage& TorchStorage::operator=(TorchStorage&&) noexcept = default;

std::span<std::byte> TorchStorage::bytes() const {
  TENON_CHECK(state_ != nullptr, "TorchStorage used after it was moved from");
  return state_->bytes();
}

const std::string& TorchStorage::name() const {
  TENON_CHECK(state_ != nullptr, "TorchStorage used after it was moved from");
  return state_->name();
}

absl::StatusOr<TorchStorage> TorchStorage::Create(
    size_t size_bytes, absl::string_view name_prefix) {
  if (name_prefix.size() > kMaxTorchNameLength - kRandomLength) {
    return absl::InvalidArgumentError(
        absl::StrCat("TorchStorage::Create(): prefix '", name_prefix, "' has ",
                     name_prefix.size(), " characters; want at most ",
                     kMaxTorchNameLength - kRandomLength));
  }
  if (size_bytes == 0 || size_bytes > SIZE_MAX - kTorchHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("TorchStorage::Create(): ", SizeText(size_bytes),
                     "; want 1 to ", SizeText(SIZE_MAX - kTorchHeaderBytes)));
  }
  TENON_ASSIGN_OR_RETURN(
      Segment segment,
      Segment::CreateSharedWritable(size_bytes + kTorchHeaderBytes,
                                    {.strategy = SharingStrategy::kFileSystem,
                                     .name_prefix = std::string(name_prefix)}));
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  References(mapping).store(1);
  return TorchStorage(std::make_unique<State>(
      Registration(), std::move(segment), std::move(mapping), size_bytes,
      /*drops=*/false));
}

absl::StatusOr<TorchStorage> TorchStorage::Open(absl::string_view manager,
                                                absl::string_view name,
                                                size_t size_bytes,
                                                Deadline deadline) {
  const std::string path(manager);
  absl::string_view plain = name;
  if (!absl::ConsumePrefix(&plain, "/") ||
      (!IsTorchName(plain) &&
       (!IsMadeShmName(plain) || plain.size() > kMaxTorchNameLength))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "TorchStorage::Open(): '", name,
        "' is not a name that torch makes (/torch_PID_...), or Tenon"));
  }
  TENON_ASSIGN_OR_RETURN(UniqueFd socket, ConnectToManager(path, deadline));
  const std::string file(plain);
  // Before it is opened, as torch does: from then on its manager keeps it.
  TENON_RETURN_IF_ERROR(Register(socket.get(), file, path));
  Registration registration(std::move(socket), file);
  TENON_CRASH_POINT("torch.client.registered");
  TENON_ASSIGN_OR_RETURN(Segment segment,
                         Segment::Open(file, SegmentKind::kSharedWritable));
  if (segment.size_bytes() < kTorchHeaderBytes ||
      segment.size_bytes() - kTorchHeaderBytes < size_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        "TorchStorage::Open(): '", name, "' has ",
        SizeText(segment.size_bytes()), "; want the ", SizeText(size_bytes),
        " of the storage and ", kTorchHeaderBytes, " of torch's header"));
  }
  TENON_ASSIGN_OR_RETURN(WritableMapping mapping, segment.MapWritable());
  if (References(mapping).fetch_add(1) <= 0) {
    References(mapping).fetch_sub(1);
    return absl::NotFoundError(
        absl::StrCat("TorchStorage::Open(): the last holder of '", name,
                     "' is removing it, or it has no header of torch"));
  }
  TENON_CRASH_POINT("torch.client.opened");
  return TorchStorage(
      std::make_unique<State>(std::move(registration), std::move(segment),
                              std::move(mapping), size_bytes, /*drops=*/true));
}

}  // namespace tenon
