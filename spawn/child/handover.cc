// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/handover.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/child/start_message.h"

namespace tenon::spawn {
namespace {

constexpr size_t kMaxStartBytes = 64 * 1024;
constexpr absl::Duration kChildPatience = absl::Seconds(30);
// Polling interval for a limit that sends no event when it allows more.
constexpr absl::Duration kNap = absl::Milliseconds(1);

absl::StatusOr<ReadOnlyMapping> MapArgument(UniqueFd fd, uint64_t size) {
  TENON_ASSIGN_OR_RETURN(
      const Segment segment,
      Segment::Adopt(std::move(fd), SegmentKind::kOwnerWritten));
  if (segment.size_bytes() != size) {
    return absl::DataLossError(absl::StrCat("start message: argument of ",
                                            segment.size_bytes(),
                                            " bytes; want ", size));
  }
  return segment.MapReadOnly();
}

struct Parcel {
  absl::string_view bytes;
  absl::Span<const int> fds;
};

// Waits until `sent` can be retried: until the channel has room, or the limit
// of descriptors in flight may allow more.
absl::Status WaitToSend(const Channel& control, const PidFd& taker,
                        const absl::Status& sent, Deadline deadline) {
  const bool full = absl::IsDeadlineExceeded(sent);
  // poll() skips a negative descriptor.
  pollfd fds[] = {
      {.fd = taker.fd(), .events = POLLIN, .revents = 0},
      {.fd = full ? control.fd() : -1, .events = POLLOUT, .revents = 0}};
  if (!full) deadline = Earlier(deadline, Deadline::After(kNap));
  TENON_RETURN_IF_ERROR(PollUntil(fds, deadline).status());
  if (fds[0].revents == 0) return absl::OkStatus();
  return absl::UnavailableError("it ended before it received its descriptors");
}

// Sends, unless the process `taker` ends before there is room.
absl::Status SendTo(Channel& control, const PidFd& taker, const Parcel& parcel,
                    Deadline deadline) {
  for (;;) {
    absl::Status sent =
        control.Send(parcel.bytes, parcel.fds, Deadline::Passed());
    const bool may_come_true =
        absl::IsDeadlineExceeded(sent) || absl::IsResourceExhausted(sent);
    if (!may_come_true || deadline.has_passed()) return sent;
    TENON_RETURN_IF_ERROR(WaitToSend(control, taker, sent, deadline));
  }
}

// Takes the descriptors of a message, first to last.
class Taker {
 public:
  explicit Taker(std::vector<UniqueFd>& fds) : fds_(fds) {}
  UniqueFd Next() { return std::move(fds_[next_++]); }
  std::vector<UniqueFd> Rest() {
    fds_.erase(fds_.begin(), fds_.begin() + next_);
    return std::move(fds_);
  }

 private:
  std::vector<UniqueFd>& fds_;
  ptrdiff_t next_ = 0;
};

size_t HouseCount(const StartMessage& start) {
  return 1 + start.ancestor_count + (start.argument_bytes > 0 ? 1 : 0) +
         (start.has_crash_record ? 1 : 0);
}

absl::Status CheckFds(const StartMessage& start, size_t got) {
  const size_t users = std::min<uint64_t>(start.fd_count, kFdsInFirstMessage);
  if (start.ancestor_count <= kMaxAncestors &&
      got == HouseCount(start) + users) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("start message: got ", got,
                                          " descriptors; want ",
                                          HouseCount(start) + users));
}

absl::StatusOr<Handover> Unpack(Message message) {
  TENON_ASSIGN_OR_RETURN(StartMessage start, DecodeStartMessage(message.bytes));
  TENON_RETURN_IF_ERROR(CheckFds(start, message.fds.size()));
  Taker taker(message.fds);
  TENON_ASSIGN_OR_RETURN(PidFd parent, PidFd::Adopt(taker.Next()));
  std::vector<PidFd> ancestors;
  for (uint32_t i = 0; i < start.ancestor_count; ++i) {
    TENON_ASSIGN_OR_RETURN(PidFd ancestor, PidFd::Adopt(taker.Next()));
    ancestors.push_back(std::move(ancestor));
  }
  ReadOnlyMapping mapped;
  if (start.argument_bytes > 0) {
    TENON_ASSIGN_OR_RETURN(mapped,
                           MapArgument(taker.Next(), start.argument_bytes));
  }
  std::string argument = std::exchange(start.argument, {});
  UniqueFd crash_record = start.has_crash_record ? taker.Next() : UniqueFd();
  return Handover{.start = std::move(start),
                  .parent = std::move(parent),
                  .ancestors = std::move(ancestors),
                  .crash_record = std::move(crash_record),
                  .argument = std::move(argument),
                  .mapped_argument = std::move(mapped),
                  .fds = taker.Rest()};
}

}  // namespace

// The strategy is fixed: a name in /dev/shm would outlive a parent that is
// killed now.
absl::StatusOr<SharedArgument> SharedArgument::Create(
    absl::string_view argument) {
  TENON_ASSIGN_OR_RETURN(PidFd parent, PidFd::Open(getpid()));
  SharedArgument shared(std::move(parent), argument);
  if (argument.size() <= kMaxShort) return shared;
  TENON_ASSIGN_OR_RETURN(
      shared.stored_,
      Segment::CreateFilled(
          std::as_bytes(std::span(argument.data(), argument.size())),
          SegmentKind::kOwnerWritten,
          {.strategy = SharingStrategy::kFileDescriptor,
           .name_prefix = "tenon-argument"}));
  return shared;
}

absl::Status SendFirst(Channel& control, StartMessage start,
                       const SharedArgument& argument,
                       absl::Span<const int> fds, const HouseFds& house,
                       absl::Duration patience) {
  const Segment* const stored = argument.stored();
  start.argument = std::string(argument.short_text());
  start.argument_bytes = stored != nullptr ? stored->size_bytes() : 0;
  start.fd_count = fds.size();
  start.ancestor_count = static_cast<uint32_t>(house.ancestors.size());
  start.has_crash_record = house.crash_record >= 0;
  std::vector<int> all = {argument.parent().fd()};
  all.insert(all.end(), house.ancestors.begin(), house.ancestors.end());
  if (stored != nullptr) all.push_back(stored->fd());
  if (start.has_crash_record) all.push_back(house.crash_record);
  const auto first = fds.subspan(0, kFdsInFirstMessage);
  all.insert(all.end(), first.begin(), first.end());
  const std::string bytes = EncodeStartMessage(start);
  if (bytes.size() > kMaxStartBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "start message: ", bytes.size(), " bytes, most of them the ",
        "entry's name or inherited settings; at most ", kMaxStartBytes));
  }
  // There is no child yet whose end could matter; this process does not end.
  return SendTo(control, argument.parent(), {bytes, all},
                Deadline::After(patience));
}

absl::Status SendRest(Channel& control, const PidFd& child,
                      absl::Span<const int> fds) {
  const Deadline deadline = Deadline::After(kChildPatience);
  auto rest = fds.subspan(std::min(fds.size(), kFdsInFirstMessage));
  do {
    const auto next = rest.subspan(0, Channel::kMaxFds);
    TENON_RETURN_IF_ERROR(SendTo(control, child, {"", next}, deadline));
    rest.remove_prefix(next.size());
  } while (!rest.empty());
  return absl::OkStatus();
}

absl::StatusOr<Handover> ReceiveFirst(Channel& control) {
  TENON_ASSIGN_OR_RETURN(Message message, control.Receive(Deadline::Passed()));
  return Unpack(std::move(message));
}

absl::Status ReceiveRest(Channel& control, Handover& handover) {
  do {
    const size_t missing = handover.start.fd_count - handover.fds.size();
    const size_t want = std::min(missing, Channel::kMaxFds);
    TENON_ASSIGN_OR_RETURN(Message message, control.Receive(Deadline::Never()));
    if (message.fds.size() != want || !message.bytes.empty()) {
      return absl::DataLossError(absl::StrCat(
          "descriptors' message: got ", message.fds.size(), " descriptors and ",
          message.bytes.size(), " bytes; want ", want, " and 0"));
    }
    std::move(message.fds.begin(), message.fds.end(),
              std::back_inserter(handover.fds));
  } while (handover.fds.size() < handover.start.fd_count);
  return absl::OkStatus();
}

}  // namespace tenon::spawn
