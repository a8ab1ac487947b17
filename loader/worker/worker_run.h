// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerRun: a process or a thread that runs a worker, from its start to its
// end.

#ifndef TENON_LOADER_WORKER_WORKER_RUN_H_
#define TENON_LOADER_WORKER_WORKER_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/loader/worker/loading.h"
#include "tenon/loader/worker/worker_host.h"
#include "tenon/loader/worker/worker_link.h"
#include "tenon/shm/pages/mapping.h"

namespace tenon::loader {

// Ownership: owns the process or thread, and the loader's ends to it.
// Threads: thread-compatible.
struct WorkerRun {
  WritableMapping note;  // A WorkerNote, which outlives a thread.
  std::unique_ptr<WorkerHost> host;
  WorkerLink link;

  int64_t samples = 0;       // Taken from it.
  int64_t first_bytes = -1;  // Of memory, at its first batch; -1: none yet.
  bool retires = false;      // Gets no more tasks.
  // What it was seen to load, and since when.
  Loading seen = {};
  int64_t seen_since_ns = 0;

  Loading loading() const;
  // What it loads, in words; empty if nothing.
  std::string Describe() const;

  // Whether it has made so many samples, or its memory has grown by so much.
  bool IsWorn(std::optional<int64_t> samples_limit,
              std::optional<int64_t> bytes_limit);

  // Whether it has loaded one sample for so long. Time in which a signal or a
  // debugger holds it does not count; continued, it has half of `timeout` left
  // at least.
  bool Hangs(absl::Duration timeout, int64_t now_ns);
  // Ends it because it hangs. Returns why, with its stack.
  absl::Status Abort(absl::Duration timeout);

  struct End {
    absl::Status status;
    bool is_death = false;  // Not an error that it returned.
  };
  // What an error of the link is to the caller of the loader: never
  // kDeadlineExceeded nor kCancelled. If the run has ended, how, and what it
  // was loading; may wait a moment for the end.
  End EndOf(const absl::Status& why) const;
};

// `status` with `prefix`, as an error of the loader: kDeadlineExceeded would
// ask the caller to try again, kCancelled is that of Loader::Cancel().
absl::Status FinalError(absl::string_view prefix, const absl::Status& status);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_RUN_H_
