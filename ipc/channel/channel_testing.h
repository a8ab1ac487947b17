// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What the tests of channels share: descriptors that can be told apart, a peer
// that writes what it likes, and bodies run in a child.

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

// A file in memory with `content`, and what is in such a file.
UniqueFd FileWith(absl::string_view content);
std::string ContentOf(int fd);

bool IsCloseOnExec(int fd);

// A pair of sockets that channels can adopt.
std::pair<UniqueFd, UniqueFd> SocketPair();

// The peer that does not use Channel: sends one datagram of exactly `bytes`
// with exactly `fds`. False, with errno set, if the kernel refuses.
bool SendRaw(int socket, absl::string_view bytes,
             absl::Span<const int> fds = {});

// The datagram that Channel::Send() would make.
std::string GoodFrame(absl::string_view payload, size_t fd_count = 0);

// Runs `body` in a forked child and does not wait for it; after two minutes
// SIGALRM ends it. Where there is nothing else to do meanwhile, and no signal
// to end it, PassesInChild() of process_testing.h is simpler.
pid_t StartChild(absl::FunctionRef<void()> body);

// Waits for it; returns 0, 1 if an expectation failed in it, kSkipped, or 128
// plus the signal that ended it.
inline constexpr int kSkipped = 77;
int ExitCodeOf(pid_t child);

// Ends the body of a child that cannot test what it should; says why.
[[noreturn]] void SkipInChild(absl::string_view why);

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_CHANNEL_TESTING_H_
