// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProgressBar: how far an epoch is, and how fast it goes.
//
//   ProgressBar bar({.label = "epoch 1", .total_images = 5000});
//   while (...) bar.Add(batch_size, batch_bytes);
//   bar.Finish();
//
// On a terminal it is one line that is drawn anew, at most 10 times a second:
//
//   epoch 1  [#########......]  61%  812.4 images/s  489.2 MB/s  ETA 0:02
//
// On anything else (a file, a pipe, the log of a CI job) it is whole lines: one
// whenever another tenth is done, but none within a second of the last; and one
// when there has been none for 30 seconds.

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
  // Where to write. Not owned; outlives the bar.
  int fd = STDOUT_FILENO;
  // Stands at the beginning of the line, if not empty. In ASCII.
  std::string label;
  // How many images will be added; at 0 or less nobody knows, and there is no
  // bar, no percentage and no ETA.
  int64_t total_images = 0;
  // Tests bring their own clock.
  std::function<std::chrono::steady_clock::time_point()> now =
      std::chrono::steady_clock::now;
};

// Rates are means since the bar was made; a MB is 10^6 bytes; the ETA is the
// time that the rest takes at this rate, as minutes:seconds or h:mm:ss.
//
// A line too long for the terminal is drawn without its less important parts.
//
// Ownership: owns nothing. Destroyed unfinished, it leaves what is drawn and
//   goes to a new line, so that an error message does not begin inside a bar.
// Threads: thread-compatible.
// Failure: a bar is not worth an epoch. When writing fails, the bar says
//   nothing more. (A pipe whose reader has gone sends SIGPIPE, as to anyone.)
class ProgressBar {
 public:
  explicit ProgressBar(const ProgressOptions& options);
  ~ProgressBar();

  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Counts images that are done, and the bytes they took; both may be 0. Blocks
  // as write() does on the fd, when there is something to be written.
  void Add(int64_t images, int64_t bytes);

  // Writes the final state, with the number of images and the time they took in
  // place of the ETA, and a new line. After it, Add() and Finish() do nothing.
  // Blocks as Add() does.
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
  // When the last line was written, and how many tenths were done then.
  TimePoint written_at_;
  int64_t written_tenths_ = 0;
  bool in_line_ = false;  // The cursor of the terminal is behind a line.
  bool is_over_ = false;  // Finished, or writing has failed.
};

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_PROGRESS_H_
