// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Subject: one way of doing the work of a row: a queue of Tenon, the limit, a
// peer.

#ifndef TENON_BENCHMARKS_HARNESS_SUBJECT_H_
#define TENON_BENCHMARKS_HARNESS_SUBJECT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/process/pid_fd.h"

namespace tenon::benchmarks {

// A spinning wait. Aborts after several minutes: then the peer has died.
template <typename Ready>
void SpinUntil(const Ready& ready) {
  for (uint64_t turn = 0; !ready(); ++turn) {
    TENON_CHECK(turn < uint64_t{1} << 33, "the other process is silent");
    StdAtomics::Pause();
  }
}

// Created before the fork, so that both processes have one; from then on each
// process uses its own half.
class Subject {
 public:
  virtual ~Subject() = default;

  // Once in each process before its first turn, on all cores; `peer` is the
  // other process.
  virtual void BeginAsking(const PidFd& /*peer*/) {}
  virtual void BeginAnswering(const PidFd& /*peer*/) {}
  // After the last turn, in the answering process, which then exits without
  // destroying its subjects.
  virtual void EndAnswering() {}

  // `count` hand-overs, at the same time in both processes.
  virtual void Ask(int count) = 0;
  virtual void Answer(int /*count*/) {}

  // The part of the measured `total_ns` of the last Ask() that counts; NaN if
  // the subject could not be measured.
  virtual double CostOf(double total_ns) const { return total_ns; }
  // Why it could not be measured; empty if it was.
  virtual std::string failure() const { return ""; }
};

struct NamedSubject {
  std::string name;
  std::unique_ptr<Subject> subject;  // Null if it is missing.
  std::string missing;               // The reason.
};

// A stable name, and how it is measured.
struct Row {
  std::string name;
  std::string what;   // One hand-over, in words.
  std::string limit;  // The subject to which the others are compared.
  int count = 512;    // Hand-overs in a turn.
  bool crosses_cores = true;
  bool sleeps = false;
  std::function<std::vector<NamedSubject>()> subjects;
};

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HARNESS_SUBJECT_H_
