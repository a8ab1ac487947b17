// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProgressBar: progress and speed of an epoch.
//
//   ProgressBar bar({.label = "epoch 1", .total_images = 5000});
//   while (...) bar.Add(batch_size, batch_bytes);
//   bar.Finish();
//
// On a terminal it is one line that is redrawn at most 10 times a second:
//
//   epoch 1  [#########......]  61%  812.4 images/s  489.2 MB/s  ETA 0:02
//
// On any other output (a file, a pipe, the log of a CI job) it is whole lines:
// one whenever another tenth is done, but at most one per second; and one after
// 30 seconds without a line.

#ifndef TENON_EXAMPLES_PHOTOS_PROGRESS_H_
#define TENON_EXAMPLES_PHOTOS_PROGRESS_H_

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"

namespace tenon {

struct ProgressOptions {
  // The output. Not owned; outlives the bar.
  int fd = STDOUT_FILENO;
  // Prefix of the line, if not empty. In ASCII.
  std::string label;
  // Number of images that will be added; at 0 or less it is unknown, and there
  // is no bar, no percentage and no ETA.
  int64_t total_images = 0;
  // Tests replace the clock.
  std::function<std::chrono::steady_clock::time_point()> now =
      std::chrono::steady_clock::now;
};

// Rates are means since the bar was created; a MB is 10^6 bytes; the ETA is the
// remaining time at this rate, as minutes:seconds or h:mm:ss.
//
// A line too long for the terminal is drawn without its less important parts.
//
// Ownership: owns nothing. An unfinished bar's destructor moves on to a new
//   line, so that an error message does not begin inside a bar.
// Threads: thread-compatible.
// Failure: after a failed write, the bar writes nothing more; the epoch goes
//   on. (A pipe whose reader has closed it sends SIGPIPE, as usual.)
class ProgressBar {
 public:
  explicit ProgressBar(const ProgressOptions& options);
  ~ProgressBar();

  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Counts images that are done, and their bytes; both may be 0. A write blocks
  // like write() on the fd.
  void Add(int64_t images, int64_t bytes);

  // Writes the final state, with the number of images and the elapsed time
  // instead of the ETA, and a new line. After it, Add() and Finish() do
  // nothing. Blocks as Add() does.
  void Finish();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  int64_t tenths_done() const;
  bool IsLineDue(TimePoint now) const;
  void WriteState(TimePoint now, bool is_final);
  void Write(absl::string_view text);

  const ProgressOptions options_;
  const bool is_terminal_;
  const TimePoint start_;
  int64_t images_ = 0;
  int64_t bytes_ = 0;
  // The time of the last line, and the number of tenths done then.
  TimePoint written_at_;
  int64_t written_tenths_ = 0;
  bool in_line_ = false;  // The terminal's cursor is behind a line.
  bool is_over_ = false;  // Finished, or writing has failed.
};

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_PROGRESS_H_
