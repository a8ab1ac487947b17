// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Program: runs an example like a user, and records its output, its exit and
// its leftovers.
//
//   Program program({"examples/photo_epoch", "--workers", "2"});
//   program.WaitForOutput("epoch 1");
//   program.Signal(SIGINT);
//   EXPECT_EQ(program.Wait().exit_code, 130);

#ifndef TENON_EXAMPLES_TESTING_PROGRAM_H_
#define TENON_EXAMPLES_TESTING_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon {

// Ownership: owns the process, which is killed with its whole process group if
//   it still runs. Threads: thread-compatible. Failure: aborts the test
//   program; no wait lasts longer than two minutes.
class Program {
 public:
  // Starts it in a process group of its own, with stdout and stderr in one pipe
  // and no stdin.
  explicit Program(const std::vector<std::string>& arguments);
  ~Program();

  pid_t pid() const { return pid_; }
  // The current processes that it has started by //spawn: its children's
  // children, since supervisors are in between.
  std::vector<pid_t> Workers() const;
  void Signal(int signal) const;
  // To the whole process group, like a terminal's Ctrl-C.
  void SignalGroup(int signal) const;

  // Reads until `text` has been printed; false if the program ended first.
  bool WaitForOutput(const std::string& text);
  // Reads to the end of the output and waits for the end of the program.
  ExitStatus Wait();
  // The output read so far.
  const std::string& output() const { return output_; }

  // Whether no process of its group is left. Waits for orphans without
  // descriptors that init has not reaped yet.
  bool GroupIsGone() const;

 private:
  // Reads once; false at the end of the output.
  bool Read();

  pid_t pid_ = -1;
  UniqueFd output_fd_;
  std::string output_;
  bool reaped_ = false;
};

}  // namespace tenon

#endif  // TENON_EXAMPLES_TESTING_PROGRAM_H_
