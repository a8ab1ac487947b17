// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Helpers of the channel tests: descriptors that can be distinguished, a peer
// that sends arbitrary data, and bodies that run in a child.

#ifndef TENON_IPC_CHANNEL_CHANNEL_TESTING_H_
#define TENON_IPC_CHANNEL_CHANNEL_TESTING_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {

// Matches a StatusOr<Message> of these bytes and no descriptors.
inline auto IsMessage(std::string bytes) {
  using ::testing::Field;
  return IsOkAndHolds(
      ::testing::AllOf(Field("bytes", &Message::bytes, std::move(bytes)),
                       Field("fds", &Message::fds, ::testing::IsEmpty())));
}

// For waits that should end long before: a watchdog, not a promise.
Deadline Watchdog();

// A file in memory with `content`, and the content of such a file.
UniqueFd FileWith(absl::string_view content);
std::string ContentOf(int fd);

bool IsCloseOnExec(int fd);

// A pair of sockets that channels can adopt.
std::pair<UniqueFd, UniqueFd> SocketPair();

// A peer without Channel: sends one datagram of exactly `bytes` with exactly
// `fds`. False, with errno set, if the kernel refuses.
bool SendRaw(int socket, absl::string_view bytes,
             absl::Span<const int> fds = {});

// The datagram that Channel::Send() would make.
std::string GoodFrame(absl::string_view payload, size_t fd_count = 0);

// Runs `body` in a forked child and does not wait for it; after two minutes
// SIGALRM ends it. PassesInChild() of process_testing.h is simpler if the
// parent has nothing to do meanwhile and sends no signal.
pid_t StartChild(absl::FunctionRef<void()> body);

// Waits for it; returns 0, 1 if an expectation failed in it, kSkipped, or 128
// plus the signal that ended it.
inline constexpr int kSkipped = 77;
int ExitCodeOf(pid_t child);

// Ends the body of a child that cannot run its test; prints the reason.
[[noreturn]] void SkipInChild(absl::string_view why);

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_CHANNEL_TESTING_H_
