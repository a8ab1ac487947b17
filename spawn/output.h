// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Output: where a child's stdout and stderr go, if not where its parent's go.
//
// Into a file the child writes by itself. To several places, or where the end
// is to be kept, it writes into pipes, and a thread of the parent passes on.

#ifndef TENON_SPAWN_OUTPUT_H_
#define TENON_SPAWN_OUTPUT_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/process_options.h"

namespace tenon::spawn {

// Ownership: owns its descriptors and its thread; destroying it calls Finish().
// Threads: thread-compatible.
// Processes: not for a forked child, in which there is no such thread.
// Failure: what cannot be written to a file or a stream is dropped; the child
//   is not held up.
class Output {
 public:
  static constexpr size_t kTailBytes = 4096;

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

  // Once the child has ended: passes on what it has written, and ends the
  // thread. What descendants of the child write later is lost. Blocks as long
  // as the files and streams do.
  void Finish();

  // The end of the child's stderr; all of it once Finish() has returned.
  std::string StderrTail() const;

  // For a forked child: forgets all and closes nothing.
  static void Abandon(std::unique_ptr<Output> output);

 private:
  struct Stream {
    UniqueFd pipe;  // The parent's end.
    UniqueFd file;
    int stream = -1;  // This process's own, borrowed.
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
  void KeepTail(const char* data, size_t size);

  UniqueFd child_ends_[2];
  std::vector<Stream> streams_;
  UniqueFd stop_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::string tail_;  // Guarded by mutex_.
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_OUTPUT_H_
