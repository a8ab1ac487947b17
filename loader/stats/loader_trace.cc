// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/stats/loader_trace.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/stats/json_text.h"
#include "tenon/loader/stats/loader_stats.h"

namespace tenon::loader {
namespace {

// Tracks are numbered from 1; the consumer's is the first.
int TrackOf(const ProcessStats& process) { return process.worker + 2; }

std::string NameEvent(absl::string_view what, int pid, int track,
                      absl::string_view name) {
  return absl::StrCat("{\"name\": ", JsonString(what),
                      ", \"ph\": \"M\", \"pid\": ", pid, ", \"tid\": ", track,
                      ", \"args\": {\"name\": ", JsonString(name), "}}");
}

std::string SliceOf(const StageEvent& event, int pid, int track) {
  return absl::StrFormat(
      "{\"name\": %s, \"cat\": \"loader\", \"ph\": \"X\", \"ts\": %.3f, "
      "\"dur\": %.3f, \"pid\": %d, \"tid\": %d, \"args\": {\"epoch\": %d, "
      "\"batch\": %d}}",
      JsonString(StageName(event.stage)),
      static_cast<double>(event.begin_ns) / 1e3,
      static_cast<double>(event.duration_ns) / 1e3, pid, track, event.epoch,
      event.batch);
}

void AddTrack(const ProcessStats& process, int pid,
              std::vector<std::string>& events) {
  const int track = TrackOf(process);
  events.push_back(NameEvent("thread_name", pid, track,
                             process.worker < 0
                                 ? "consumer"
                                 : absl::StrCat("worker ", process.worker,
                                                " (pid ", process.pid, ")")));
  for (const StageEvent& event : process.events) {
    events.push_back(SliceOf(event, pid, track));
  }
}

}  // namespace

std::string TraceJson(const LoaderStats& stats) {
  const int pid = stats.consumer.pid;
  std::vector<std::string> events = {
      NameEvent("process_name", pid, 1,
                absl::StrCat("loader of ", stats.consumer.dataset))};
  AddTrack(stats.consumer, pid, events);
  for (const ProcessStats& worker : stats.workers) {
    AddTrack(worker, pid, events);
  }
  return absl::StrCat("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n",
                      absl::StrJoin(events, ",\n"), "\n]}\n");
}

}  // namespace tenon::loader
