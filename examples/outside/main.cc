// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// One piece of memory, two processes: the parent writes it and sends its
// descriptor, the child maps it and checks every byte.

#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/segment/segment.h"

namespace {

using tenon::Channel;
using tenon::Deadline;
using tenon::ReadOnlyMapping;
using tenon::Segment;
using tenon::UniqueFd;

constexpr size_t kSizeBytes = 1 << 20;

std::byte ByteAt(size_t i) { return static_cast<std::byte>(i % 251); }

Deadline Soon() { return Deadline::After(absl::Seconds(10)); }

absl::Status WriteAndSend(UniqueFd socket) {
  absl::StatusOr<Channel> channel = Channel::Adopt(std::move(socket));
  if (!channel.ok()) return channel.status();
  absl::StatusOr<Segment::OwnerWritten> owned =
      Segment::CreateOwnerWritten(kSizeBytes);
  if (!owned.ok()) return owned.status();
  for (size_t i = 0; i < kSizeBytes; ++i) {
    owned->mapping.data()[i] = ByteAt(i);
  }
  const int fd = owned->segment.fd();
  return channel->Send("numbers", {&fd, 1}, Soon());
}

absl::Status ReceiveAndCheck(UniqueFd socket) {
  absl::StatusOr<Channel> channel = Channel::Adopt(std::move(socket));
  if (!channel.ok()) return channel.status();
  absl::StatusOr<tenon::Message> message = channel->Receive(Soon());
  if (!message.ok()) return message.status();
  if (message->bytes != "numbers" || message->fds.size() != 1) {
    return absl::DataLossError("not the message that was sent");
  }
  absl::StatusOr<Segment> segment = Segment::Adopt(
      std::move(message->fds[0]), tenon::SegmentKind::kOwnerWritten);
  if (!segment.ok()) return segment.status();
  absl::StatusOr<ReadOnlyMapping> mapping = segment->MapReadOnly();
  if (!mapping.ok()) return mapping.status();
  if (mapping->size_bytes() != kSizeBytes) {
    return absl::DataLossError("not the size that was sent");
  }
  for (size_t i = 0; i < kSizeBytes; ++i) {
    if (mapping->data()[i] != ByteAt(i)) {
      return absl::DataLossError("not the bytes that were written");
    }
  }
  return absl::OkStatus();
}

// Returns the exit code of a process that ends with `status`.
int Report(const char* who, const absl::Status& status) {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", who, status.ToString().c_str());
  return 1;
}

}  // namespace

int main() {
  absl::StatusOr<std::pair<Channel, Channel>> pair = Channel::CreatePair();
  if (!pair.ok()) return Report("channel", pair.status());
  // Handles are inert in a forked child, plain descriptors are not.
  UniqueFd ours = pair->first.Release();
  UniqueFd theirs = pair->second.Release();

  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    return 1;
  }
  if (child == 0) {
    ours.Reset();
    _exit(Report("child", ReceiveAndCheck(std::move(theirs))));
  }
  theirs.Reset();
  const int sent = Report("parent", WriteAndSend(std::move(ours)));
  int ended = 0;
  if (waitpid(child, &ended, 0) != child || ended != 0 || sent != 0) return 1;
  std::printf("%zu bytes, written by %d, checked by %d, never copied\n",
              kSizeBytes, getpid(), child);
  return 0;
}
