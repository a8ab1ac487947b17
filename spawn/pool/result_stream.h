// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ResultStream: the results of a pool's function, one by one.
//
//   ResultStream<int64_t> sizes = pool.Stream(Measure, NextPath);
//   for (;;) {
//     absl::StatusOr<int64_t> size = sizes.Next(Deadline::Never());
//     if (absl::IsOutOfRange(size.status())) break;  // The end.
//     if (!size.ok()) continue;                      // It failed; go on.
//     Use(*size);
//   }
//
// Inputs are requested as results are taken: a few chunks for each worker are
// in flight, however long the stream is.

#ifndef TENON_SPAWN_POOL_RESULT_STREAM_H_
#define TENON_SPAWN_POOL_RESULT_STREAM_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/pool/pool_receiver.h"

namespace tenon::spawn {

class PoolDispatcher;  // A pool without its types.

// The next input; nullopt at the end. Called by Next() and by the stream's
// constructor. An exception becomes kInternal.
template <typename T>
using InputGenerator = std::function<absl::StatusOr<std::optional<T>>()>;

struct StreamOptions {
  // Whether results come in the order of their inputs, or in completion order.
  bool ordered = true;
  // Inputs sent to a worker at once.
  size_t chunk_size = 1;
  // Maximum number of chunks in flight; 0: twice the number of workers.
  size_t max_chunks = 0;
};

namespace internal_pool {

// A stream without its types. Thread-compatible; answers arrive on the pool's
// thread.
class StreamCore {
 public:
  StreamCore(std::shared_ptr<PoolDispatcher> pool,
             absl::StatusOr<std::string> function,
             InputGenerator<PackedArguments> next,
             const StreamOptions& options);
  ~StreamCore();

  absl::StatusOr<PackedArguments> Next(Deadline deadline);

 private:
  class Answers;
  class Receiver;

  void Feed();
  void FeedChunk();
  absl::StatusOr<std::optional<PackedArguments>> NextInput();

  std::shared_ptr<PoolDispatcher> pool_;
  absl::StatusOr<std::string> function_;
  InputGenerator<PackedArguments> next_;
  StreamOptions options_;
  std::shared_ptr<Answers> answers_;
  size_t most_under_way_ = 0;
  size_t submitted_ = 0;
  size_t taken_ = 0;
  // Why there are no more inputs; kOutOfRange at their end.
  std::optional<absl::Status> end_;
};

}  // namespace internal_pool

// Ownership: owns results until they are taken. May outlive its pool;
//   unfinished calls then fail with kCancelled.
// Threads: thread-compatible.
template <typename T>
class ResultStream {
 public:
  // Not for users: see ProcessPool::Stream().
  ResultStream(std::shared_ptr<PoolDispatcher> pool,
               absl::StatusOr<std::string> function,
               InputGenerator<PackedArguments> next,
               const StreamOptions& options)
      : core_(std::make_unique<internal_pool::StreamCore>(
            std::move(pool), std::move(function), std::move(next), options)) {}

  // The next result, or the error in its position; the stream then continues.
  // Blocks until `deadline`.
  // Errors: kOutOfRange at the end, each time; kDeadlineExceeded, after which
  // it may be called again; the generator's error, once, as the last before the
  // end.
  absl::StatusOr<internal_pool::Held<T>> Next(Deadline deadline) {
    return internal_pool::UnpackResult<T>(core_->Next(deadline));
  }

 private:
  std::unique_ptr<internal_pool::StreamCore> core_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_POOL_RESULT_STREAM_H_
