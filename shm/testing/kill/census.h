// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Census: counts what a process holds, so that a test can say that nothing was
// left behind.
//
//   const std::string prefix = UniqueShmPrefix();
//   const Census before = TakeCensus({.shm_prefix = prefix});
//   UseSegments(prefix);
//   EXPECT_TRUE(ExpectSame(before, TakeCensus({.shm_prefix = prefix})));
//
// fails with, for example,
//   open memfd /memfd:camera: 0 before, 2 after
//   name in /dev/shm camera-1f0c5e0a9d3b47d28a6be1537cf4028e: 0 before, 1 after

#ifndef TENON_SHM_TESTING_KILL_CENSUS_H_
#define TENON_SHM_TESTING_KILL_CENSUS_H_

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace tenon {

struct CensusOptions {
  // Whose; 0 is the calling process. Another's needs its user's rights.
  pid_t pid = 0;
  // Also count the names in /dev/shm that begin with this; empty: none. They
  // belong to the machine, so it has to be a prefix that nobody else uses.
  std::string shm_prefix;
};

// A value. Processes come and go: a census of one that is running is a moment's
// view, and not an atomic one.
struct Census {
  // What is compared, as "kind of thing" -> how many of it:
  //   "open memfd /memfd:x", "open socket", "open pipe", "open eventfd",
  //   "open pidfd", "open /dev/shm/x", "open /some/path", ...
  //   "mapped memfd /memfd:x", "mapped /dev/shm/x", "mapped anonymous" (all
  //   shared with other processes; each mapping counts),
  //   "name in /dev/shm x", "thread", "child process", "unreaped child
  //   process".
  std::map<std::string, size_t> held;
  // All mappings, also the private ones. Not compared: malloc() and thread
  // stacks come and go as they like.
  size_t mappings = 0;

  // How many there are of the kinds that begin with `kind`.
  size_t Count(const std::string& kind) const;
};

// Takes some 100 us. Threads: thread-safe, but what other threads open
// meanwhile is counted or not. A process that is not there, or that may not be
// looked into, holds nothing but an entry "error: ...".
Census TakeCensus(const CensusOptions& options = {});

// The pids of the children of this process, unreaped ones among them. Children
// of all threads.
std::vector<pid_t> ChildPids();

// The state of a process as /proc has it: 'T' stopped, 'Z' unreaped; 0 if there
// is no such process.
char ProcessState(pid_t pid);

// The parent of a process; 0 if there is no such process.
pid_t ParentPid(pid_t pid);

// A line for each kind that differs; empty if none does.
std::string Difference(const Census& before, const Census& after);

// The same with what is there now; what other threads of this process are about
// to let go of (received_fd.h) is waited for, up to a second.
std::string LeftSince(const Census& before, const CensusOptions& options = {});

// For EXPECT_TRUE: fails with the difference in words.
testing::AssertionResult ExpectSame(const Census& before, const Census& after);

// A prefix for names in /dev/shm that nobody else uses: random, because
// sandboxed tests share /dev/shm but may have the same pid.
std::string UniqueShmPrefix();

// Removes what is left in /dev/shm: the names that begin with `prefix` (empty:
// none) and were not there when this was constructed, at the latest when it is
// destroyed.
class ShmNamesGuard {
 public:
  explicit ShmNamesGuard(const std::string& prefix);
  ~ShmNamesGuard() { RemoveNew(); }
  ShmNamesGuard(const ShmNamesGuard&) = delete;
  ShmNamesGuard& operator=(const ShmNamesGuard&) = delete;

  // Removes those that there are now, and returns them.
  std::vector<std::string> RemoveNew();

 private:
  const std::string prefix_;
  const std::vector<std::string> before_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_CENSUS_H_
