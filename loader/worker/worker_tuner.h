// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerTuner: how many workers a loader should use, by the time that its
// consumer waits for batches.

#ifndef TENON_LOADER_WORKER_WORKER_TUNER_H_
#define TENON_LOADER_WORKER_WORKER_TUNER_H_

#include <cstdint>
#include <optional>
#include <string>

namespace tenon::loader {

// Looks at a window of batches at a time. While the consumer waits for more
// than a twentieth of its time, twice as many workers are tried, and kept if
// batches come a twentieth faster. A consumer that hardly waits for several
// windows has one worker less, unless that number was too small before. A trial
// that failed is repeated, more and more seldom: something else may have slowed
// it.
//
// Ownership: a value. Threads: thread-compatible.
class WorkerTuner {
 public:
  // 1 to `most` workers, each with up to `prefetch` batches at a time.
  WorkerTuner(int most, int prefetch);

  // A batch was returned, `passed_ns` after the one before, for `waited_ns` of
  // which the consumer waited.
  void OnBatch(int64_t waited_ns, int64_t passed_ns);

  int workers() const { return workers_; }
  // Why so many, in a sentence.
  const std::string& reason() const { return reason_; }

 private:
  void OnWindow(double waiting, double ns_per_batch);
  void Use(int workers, const std::string& reason);

  // Of a trial of more workers.
  struct Trial {
    int before = 1;
    double ns_per_batch = 0;  // Before it.
  };

  const int most_;
  const int prefetch_;
  int workers_ = 1;
  int enough_;            // More are not tried, until:
  int to_retry_;          // So many windows with waiting have passed.
  int retry_after_;       // to_retry_ after the next failed trial.
  int too_few_ = 0;       // So many were.
  bool lowered_ = false;  // The last change was to one less.
  std::string reason_;
  std::optional<Trial> trial_;
  int idle_windows_ = 0;
  // The current window. Batches that were assigned before it are not counted.
  int64_t to_skip_ = 0;
  int64_t batches_ = 0;
  int64_t waited_ns_ = 0;
  int64_t passed_ns_ = 0;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_WORKER_TUNER_H_
