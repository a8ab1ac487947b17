// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Census: counts the resources of a process, so that a test can check for
// leaks.
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
  // The process; 0 is the calling one. Another one needs its user's rights.
  pid_t pid = 0;
  // Also count the names in /dev/shm that begin with this; empty: none. They
  // belong to the machine, so the prefix has to be unique.
  std::string shm_prefix;
};

// A value. Processes come and go: a census of a running one is momentary and
// not atomic.
struct Census {
  // Compared resources, as kind -> number:
  //   "open memfd /memfd:x", "open socket", "open pipe", "open eventfd",
  //   "open pidfd", "open /dev/shm/x", "open /some/path", ...
  //   "mapped memfd /memfd:x", "mapped /dev/shm/x", "mapped anonymous" (all
  //   shared with other processes; each mapping counts),
  //   "name in /dev/shm x", "thread", "child process", "unreaped child
  //   process".
  std::map<std::string, size_t> held;
  // All mappings, also the private ones. Not compared: malloc() and thread
  // stacks change at any time.
  size_t mappings = 0;

  // The number of resources whose kind begins with `kind`.
  size_t Count(const std::string& kind) const;
};

// Takes some 100 us. Threads: thread-safe, but descriptors that other threads
// open meanwhile may or may not be counted. The census of a process that does
// not exist, or must not be inspected, has only an entry "error: ...".
Census TakeCensus(const CensusOptions& options = {});

// The pids of the children of this process, unreaped ones among them. Children
// of all threads.
std::vector<pid_t> ChildPids();

// The state of a process as /proc shows it: 'T' stopped, 'Z' unreaped; 0 if
// there is no such process.
char ProcessState(pid_t pid);

// The parent of a process; 0 if there is no such process.
pid_t ParentPid(pid_t pid);

// A line for each kind that differs; empty if none does.
std::string Difference(const Census& before, const Census& after);

// The difference from now; waits up to a second for descriptors that other
// threads of this process are closing (received_fd.h).
std::string LeftSince(const Census& before, const CensusOptions& options = {});

// For EXPECT_TRUE: fails with the difference in words.
testing::AssertionResult ExpectSame(const Census& before, const Census& after);

// A unique prefix for names in /dev/shm: random, because sandboxed tests share
// /dev/shm but may have the same pid.
std::string UniqueShmPrefix();

// Removes new names in /dev/shm, at the latest on destruction: those that begin
// with `prefix` (empty: none) and did not exist at construction.
class ShmNamesGuard {
 public:
  explicit ShmNamesGuard(const std::string& prefix);
  ~ShmNamesGuard() { RemoveNew(); }
  ShmNamesGuard(const ShmNamesGuard&) = delete;
  ShmNamesGuard& operator=(const ShmNamesGuard&) = delete;

  // Removes the new names of now, and returns them.
  std::vector<std::string> RemoveNew();

 private:
  const std::string prefix_;
  const std::vector<std::string> before_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_CENSUS_H_
