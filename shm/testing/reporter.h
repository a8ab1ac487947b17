// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Reporter: reports failures of a test's part that runs in another process or
// thread.
//
//   TENON_ASSERT_OK_AND_ASSIGN(ReportPipe pipe, ReportPipe::Create());
//   if (fork() == 0) {
//     if (!whole) pipe.reporter().Fail("the record is torn");
//     _exit(0);
//   }
//   ...
//   for (const std::string& failure : pipe.Drain().failures) ...
//
// Reports stay readable after the reporting process has been killed.

#ifndef TENON_SHM_TESTING_REPORTER_H_
#define TENON_SHM_TESTING_REPORTER_H_

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// What was reported, in order.
struct Report {
  std::vector<std::string> failures;
  // Counted events that are not failures: text -> number.
  std::map<std::string, size_t> notes;
  // The reporting process has announced that it will kill itself.
  bool will_die = false;
};

// The writing end. Borrows a descriptor from a ReportPipe; copies are
// equivalent.
// Threads: thread-safe. Processes: usable in forked children.
// Failure: a report that does not fit, because some 64 KiB have not been
//   drained, is dropped; no call blocks. A text is cut at 4000 bytes.
class Reporter {
 public:
  explicit Reporter(int fd) : fd_(fd) {}

  void Fail(absl::string_view what) const { Write('F', what); }
  void Note(absl::string_view what) const { Write('N', what); }
  // Announces that the process will kill itself by SIGKILL.
  void WillDie() const { Write('D', ""); }

 private:
  void Write(char kind, absl::string_view text) const;

  int fd_;
};

// Both ends. Ownership: owns two descriptors (close-on-exec).
// Threads: thread-compatible. Processes: only one process should drain.
class ReportPipe {
 public:
  // Errors: kResourceExhausted at the limit of descriptors.
  static absl::StatusOr<ReportPipe> Create();

  Reporter reporter() const { return Reporter(write_end_.get()); }
  // For poll(): readable when there are reports to drain.
  int fd() const { return read_end_.get(); }

  // Reads the reports written until now; returns all reports ever read.
  const Report& Drain();

 private:
  ReportPipe(UniqueFd read_end, UniqueFd write_end)
      : read_end_(std::move(read_end)), write_end_(std::move(write_end)) {}
  void Add(absl::string_view message);

  UniqueFd read_end_;
  UniqueFd write_end_;
  std::string unfinished_;
  Report report_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_REPORTER_H_
