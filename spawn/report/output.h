// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Output: the destinations of a child's stdout and stderr, unless inherited.
//
// The child writes into a single file directly. For several destinations, or
// for a kept tail, it writes into pipes, and a thread of the parent copies.

#ifndef TENON_SPAWN_REPORT_OUTPUT_H_
#define TENON_SPAWN_REPORT_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/report/output_pump.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

// Ownership: owns its descriptors and its thread; the destructor calls
//   Finish().
// Threads: thread-compatible.
// Processes: not usable in a forked child, in which there is no such thread.
// Failure: output that cannot be written to a file or a stream is dropped and
//   counted. A full stream blocks a running child's writes, as if the child
//   wrote to it directly; once the child has ended, the thread waits for
//   kPatience at most, and Finish() for 2 * kPatience if a write blocks.
class Output {
 public:
  static constexpr size_t kTailBytes = OutputPump::kTailBytes;
  // How long the output of an ended child waits for full files and streams, all
  // together.
  static constexpr absl::Duration kPatience = OutputPump::kPatience;

  // Errors: those of opening the files, naming them; kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Output>> Create(
      const ProcessOptions& options);

  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // The child's descriptors 1 and 2, above 3; -1: inherited.
  int stdout_fd() const { return child_ends_[0].get(); }
  int stderr_fd() const { return child_ends_[1].get(); }

  // Called once the child has been started, or could not be: closes the child's
  // ends, and starts the thread if one is needed. Errors: kResourceExhausted.
  absl::Status Begin();

  // Called once the child has ended: the thread copies the output written so
  // far and ends. Later output of the child's descendants is lost. Does not
  // block.
  void Stop();

  // Calls Stop(), and waits until the thread has ended: until `deadline`, and
  // for little more than 2 * kPatience after the first Stop(). A thread that is
  // still in a write (to a terminal that accepts nothing, to a network file
  // system) is left behind until the write returns. Errors: kDeadlineExceeded;
  // then nothing has changed.
  absl::Status Finish(Deadline deadline);

  // The tail of the child's stderr; complete once Finish() has returned OK.
  std::string StderrTail() const;

  // Number of bytes that could not be written, to files and streams together;
  // final once Finish() has returned OK.
  int64_t lost_bytes() const;

 private:
  Output() = default;
  absl::Status AddFile(size_t which, const std::string& path);
  absl::StatusOr<OutputStream> AddPipe(size_t which,
                                       const ProcessOptions& options,
                                       const std::string& path);

  UniqueFd child_ends_[2];
  std::shared_ptr<OutputPump> pump_;  // Null if no stream needs one.
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_OUTPUT_H_
