// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The entry point of a pool's workers.

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/hold_until_closed.h"
#include "tenon/spawn/arguments/tensor_parcel.h"
#include "tenon/spawn/child/call_entry.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/pool/internal/pool_protocol.h"
#include "tenon/spawn/pool/pool_function.h"

namespace tenon::spawn {
namespace {

// The second number of /proc/self/statm, in bytes; 0 if it cannot be read.
int64_t ResidentBytes() {
  const UniqueFd fd(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return 0;
  char text[128] = {};
  RetryOnEintr([&] { return read(fd.get(), text, sizeof(text) - 1); });
  char* second = nullptr;
  strtoll(text, &second, 10);
  return strtoll(second, nullptr, 10) * sysconf(_SC_PAGESIZE);
}

// A function that ends its thread has ended the process's main thread.
// NOLINTNEXTLINE(performance-unnecessary-value-param): as CatchAll() calls it.
[[noreturn]] void EndWithoutMainThread(EntryOutcome) { _exit(EXIT_FAILURE); }

PoolAnswer Run(PooledFunction function, PackedArguments call) {
  PoolAnswer answer;
  EntryOutcome outcome = CatchAll(
      [&] {
        absl::StatusOr<PackedArguments> value = function(std::move(call));
        if (!value.ok()) return std::move(value).status();
        answer.value = *std::move(value);
        return absl::OkStatus();
      },
      EndWithoutMainThread);
  answer.status = std::move(outcome.status);
  answer.stack = std::move(outcome.stack);
  return answer;
}

PoolAnswer RunOne(const std::optional<PoolFunctionRecord>& found,
                  const std::string& name, PackedArguments call) {
  if (found) return Run(found->function, std::move(call));
  return {.status = absl::NotFoundError(
              absl::StrCat("the worker has no pool function '", name, "'"))};
}

// If answers cannot be sent, errors are sent instead.
absl::Status Answer(Channel& channel, PoolAnswers answers) {
  const absl::Status sent = SendAnswers(channel, answers, Deadline::Never());
  if (sent.ok() || absl::IsUnavailable(sent)) return sent;
  for (PoolAnswer& answer : answers.answers) {
    if (!answer.status.ok()) continue;
    answer = {.status = absl::Status(
                  sent.code(),
                  absl::StrCat("cannot send the result: ", sent.message()))};
  }
  return SendAnswers(channel, answers, Deadline::Never());
}

// Sends the answers in as many messages as needed, each as soon as it is full:
// a worker need not have the descriptors of a whole chunk open.
absl::Status RunBatch(Channel& channel, PoolBatch batch, bool tell_rss) {
  const auto found = FindPoolFunction(batch.function);
  PoolAnswers part = {.id = batch.id, .rss_bytes = 0, .answers = {}};
  MessageRoom room;
  for (PackedArguments& call : batch.calls) {
    PoolAnswer answer = RunOne(found, batch.function, std::move(call));
    if (!room.Take(answer.value)) {
      TENON_RETURN_IF_ERROR(Answer(channel, std::move(part)));
      part = {.id = batch.id, .rss_bytes = 0, .answers = {}};
      room = MessageRoom();
      room.Take(answer.value);
    }
    part.answers.push_back(std::move(answer));
  }
  if (tell_rss) part.rss_bytes = ResidentBytes();
  return Answer(channel, std::move(part));
}

// The argument is "rss" if the pool requests the resident memory.
absl::Status RunPoolWorker(Child& child) {
  const bool tell_rss = child.argument() == "rss";
  TENON_ASSIGN_OR_RETURN(
      Channel channel,
      Channel::Adopt(child.TakeFd(0), {.allow_sockets = true}));
  TensorClaimer claimer;
  for (;;) {
    // Tensors that the pool has claimed are released while the worker is idle.
    TENON_RETURN_IF_ERROR(ReleaseWhileWaiting(channel.fd()));
    absl::StatusOr<Message> message = channel.Receive(Deadline::Never());
    // The pool has closed its end: that is how it ends its workers.
    if (absl::IsUnavailable(message.status())) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(message.status());
    TENON_ASSIGN_OR_RETURN(PoolBatch batch,
                           ReadBatch(*std::move(message), claimer));
    const absl::Status sent = RunBatch(channel, std::move(batch), tell_rss);
    if (absl::IsUnavailable(sent)) return absl::OkStatus();
    TENON_RETURN_IF_ERROR(sent);
  }
}
TENON_SPAWN_ENTRY("tenon.spawn.pool_worker", RunPoolWorker);

}  // namespace
}  // namespace tenon::spawn
