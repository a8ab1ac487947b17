// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Output: where a child's stdout and stderr go, if not where its parent's go.
//
// Into a file the child writes by itself. To several places, or where the end
// is to be kept, it writes into pipes, and a thread of the parent passes on.

#ifndef TENON_SPAWN_REPORT_OUTPUT_H_
#define TENON_SPAWN_REPORT_OUTPUT_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

// Ownership: owns its descriptors and its thread; destroying it calls Finish().
// Threads: thread-compatible.
// Processes: not for a forked child, in which there is no such thread.
// Failure: output that cannot be written to a file or a stream is dropped and
//   counted. A stream that is full holds up the child while it runs, as if the
//   child wrote to it itself; once the child has ended, for kPatience at most.
class Output {
 public:
  static constexpr size_t kTailBytes = 4096;
  // How long output of an ended child waits for files and streams that are
  // full, all together.
  static constexpr absl::Duration kPatience = absl::Seconds(1);

  // Errors: of opening the files, naming them; kResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Output>> Create(
      const ProcessOptions& options);

  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  // What the child gets as 1 and 2, above 3; -1: this process's own.
  int stdout_fd() const { return child_ends_[0].get(); }
  int stderr_fd() const { return child_ends_[1].get(); }

  // Once the child has been started, or has not: closes what was its, and
  // starts the thread if one is needed. Errors: kResourceExhausted.
  absl::Status Begin();

  // Once the child has ended: tells the thread to pass on what is written and
  // to end. What descendants of the child write later is lost. Does not block.
  void Stop();

  // Stop(), and waits until the thread has ended: until `deadline`, and for
  // little more than kPatience after the first Stop(). (A write to a disk or a
  // network file system takes as long as the kernel takes.)
  // Errors: kDeadlineExceeded; nothing has changed then.
  absl::Status Finish(Deadline deadline);

  // The end of the child's stderr; all of it once Finish() has returned OK.
  std::string StderrTail() const;

  // How many bytes could not be written, to files and streams together; final
  // once Finish() has returned OK.
  int64_t lost_bytes() const;

 private:
  struct Stream {
    UniqueFd pipe;                // The parent's end.
    std::vector<UniqueFd> sinks;  // A file, this process's own stream.
    bool is_stderr = false;
  };

  Output() = default;
  absl::Status AddFile(size_t which, const std::string& path);
  absl::Status AddPipe(size_t which, const ProcessOptions& options,
                       const std::string& path);
  void Pump();
  void PassOnUntilStopped();
  // Returns how much; 0 if nothing is there, or will be.
  size_t PassOn(Stream& stream);
  // What is there now.
  void PassOnRest(Stream& stream);
  // Counts what it cannot write.
  void WriteAll(int sink, const char* data, size_t size);
  // Whether `sink` takes more, or fails. False if it is full and time is over.
  bool AwaitRoom(int sink);
  void KeepTail(const char* data, size_t size);

  UniqueFd child_ends_[2];
  std::vector<Stream> streams_;
  UniqueFd stop_;
  std::thread thread_;
  Deadline give_up_ = Deadline::Never();  // The thread's own.
  mutable std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_.
  bool has_ended_ = false;
  std::string tail_;
  int64_t lost_bytes_ = 0;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_REPORT_OUTPUT_H_
