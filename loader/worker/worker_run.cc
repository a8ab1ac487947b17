// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_run.h"

#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/loader/worker/loading.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/report/process_error.h"

namespace tenon::loader {
namespace {

// Of a worker that has closed its ring: the reason comes with its end.
constexpr absl::Duration kEndPatience = absl::Seconds(5);
// Of one that is asked for its stack.
constexpr absl::Duration kStackPatience = absl::Seconds(2);

}  // namespace

absl::Status FinalError(absl::string_view prefix, const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status) || absl::IsCancelled(status)) {
    return absl::AbortedError(absl::StrCat(prefix, status.ToString()));
  }
  return absl::Status(status.code(), absl::StrCat(prefix, status.message()));
}

Loading WorkerRun::loading() const {
  return Loading(*reinterpret_cast<const WorkerNote*>(note.data()));
}

std::string WorkerRun::Describe() const {
  const Loading now = loading();
  return now.Describe(link.Find(now.ticket()));
}

bool WorkerRun::IsWorn(std::optional<int64_t> samples_limit,
                       std::optional<int64_t> bytes_limit) {
  if (samples_limit && samples >= *samples_limit) return true;
  // Before its first batch its memory says nothing.
  if (!bytes_limit || link.claimed() == 0) return false;
  const int64_t bytes = host->PrivateBytes();
  if (first_bytes < 0) first_bytes = bytes;
  return bytes - first_bytes >= *bytes_limit;
}

bool WorkerRun::Hangs(absl::Duration timeout, int64_t now_ns) {
  const Loading now = loading();
  if (now != seen || !now.IsOf(link.Find(now.ticket()))) {
    seen = now;
    seen_since_ns = now_ns;
    return false;
  }
  const int64_t waited_ns = now_ns - seen_since_ns;
  // Only by half of the time, as the query reads a file of the kernel.
  if (waited_ns < absl::ToInt64Nanoseconds(timeout) / 2) return false;
  if (host->IsHeld()) {
    seen_since_ns = now_ns;
    return false;
  }
  return waited_ns >= absl::ToInt64Nanoseconds(timeout);
}

absl::Status WorkerRun::Abort(absl::Duration timeout) {
  std::string what = absl::StrCat(host->Describe(), " was ended: ", Describe(),
                                  " takes longer than sample_timeout (",
                                  absl::FormatDuration(timeout), ")");
  const std::string where = host->WaitsIn();
  if (!where.empty()) {
    absl::StrAppend(&what, "; it waits in the kernel's ", where);
  }
  // Its handler notes its stack.
  host->Signal(SIGABRT);
  absl::Status how = host->Join(Deadline::After(kStackPatience));
  if (absl::IsDeadlineExceeded(how)) {
    host->Signal(SIGKILL);
    how = host->Join(Deadline::After(kEndPatience));
  }
  const auto exited = spawn::GetProcessExited(how);
  if (exited && !exited->stack.empty()) {
    absl::StrAppend(&what, "\n", exited->stack);
  }
  return absl::AbortedError(what);
}

WorkerRun::End WorkerRun::EndOf(const absl::Status& why) const {
  if (!absl::IsUnavailable(why)) {
    return {FinalError(absl::StrCat(host->Describe(), ": "), why)};
  }
  // The ring closes as the process goes; its end is a moment away.
  const absl::Status how = host->Join(Deadline::After(kEndPatience));
  std::string loading = Describe();
  if (!loading.empty()) loading = absl::StrCat(", while it loaded ", loading);
  if (how.ok()) {
    return {absl::AbortedError(absl::StrCat(
                host->Describe(), " ended before its work was done", loading)),
            true};
  }
  if (absl::IsDeadlineExceeded(how)) {
    return {FinalError(
        absl::StrCat(host->Describe(), ": ", why.message(), "; its end: "),
        how)};
  }
  if (!spawn::GetProcessExited(how)) return {FinalError("", how)};
  // Behind the first line: a stack may follow.
  std::string text(how.message());
  text.insert(std::min(text.find('\n'), text.size()), loading);
  return {FinalError("", absl::Status(how.code(), text)), true};
}

}  // namespace tenon::loader
