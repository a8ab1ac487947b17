// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// OutputPump: a thread that passes on what a child writes. Internal to Output
// (output.h).

#ifndef TENON_SPAWN_REPORT_OUTPUT_PUMP_H_
#define TENON_SPAWN_REPORT_OUTPUT_PUMP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::spawn {

// A pipe that a child writes into, and where that goes.
struct OutputStream {
  UniqueFd pipe;                // The parent's end; O_NONBLOCK.
  std::vector<UniqueFd> sinks;  // A file, this process's own stream.
  bool is_stderr = false;       // Its end is kept.
};

// Ownership: owns the descriptors. The thread has a share in the pump: a write
//   that blocks keeps both until it returns, and Finish() does not wait for it.
// Threads: thread-safe, but for Begin(), Stop() and Finish(), which one thread
//   calls.
// Processes: not for a forked child, in which there is no such thread.
// Failure: as Output.
class OutputPump : public std::enable_shared_from_this<OutputPump> {
 public:
  static constexpr size_t kTailBytes = 4096;
  // How long output waits for sinks that are full, once the child has ended.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<std::shared_ptr<OutputPump>> Create(
      std::vector<OutputStream> streams);

  OutputPump(const OutputPump&) = delete;
  OutputPump& operator=(const OutputPump&) = delete;

  // Starts the thread. Errors: kResourceExhausted.
  absl::Status Begin();

  // Makes the thread pass on the bytes that the pipes hold, and end. Does not
  // block.
  void Stop();

  // Stop(), and waits for the thread: until `deadline`, and for 2 * kPatience
  // after the first Stop(). A thread that is still in a write by then is left
  // behind, and what it has not written counts as lost. Errors:
  // kDeadlineExceeded; nothing has changed then.
  absl::Status Finish(Deadline deadline);

  // The end of stderr; complete once Finish() has returned OK.
  std::string StderrTail() const;
  // Bytes that could not be written, of all sinks; final once Finish() has
  // returned OK.
  int64_t lost_bytes() const;

 private:
  OutputPump(std::vector<OutputStream> streams, UniqueFd stop)
      : streams_(std::move(streams)), stop_(std::move(stop)) {}

  // ---- The thread ----

  void Run();
  void PassOnUntilStopped();
  // Returns the number of bytes; 0 if the pipe is empty or at its end, or if
  // Finish() has left the thread behind.
  size_t PassOn(const OutputStream& stream);
  // The bytes that the pipe holds now.
  void PassOnRest(const OutputStream& stream);
  // False, as NoteRead(), NoteWritten() and NoteLost(), if Finish() has left
  // the thread behind.
  bool WriteAll(int sink, const char* data, size_t size);
  // Whether `sink` takes more, or fails. False if it is full and time is over.
  bool AwaitRoom(int sink);
  bool NoteRead(const OutputStream& stream, const char* data, size_t size);
  bool NoteWritten(size_t size);
  bool NoteLost(size_t size);

  // ---- The parent ----

  void LeaveBehind() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // The thread's, until it has been joined.
  std::vector<OutputStream> streams_;
  UniqueFd stop_;
  std::thread thread_;
  Deadline give_up_ = Deadline::Never();  // The thread's own.
  Deadline leave_ = Deadline::Never();    // That of Finish().
  mutable ThreadMutex mutex_;
  ThreadCondition ended_;
  bool has_ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool is_left_behind_ ABSL_GUARDED_BY(mutex_) = false;
  std::string tail_ ABSL_GUARDED_BY(mutex_);
  // Read and not yet written, of all sinks.
  int64_t in_flight_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t lost_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_OUTPUT_PUMP_H_
