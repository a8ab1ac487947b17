// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProcessPool: runs functions in child processes; results arrive in futures.
//
//   #include "tenon/spawn/arguments/shm_arguments.h"  // Tensors travel.
//
//   absl::StatusOr<Tensor> Decode(std::string path, int size) {
//     return Tensor::Create(kDtypeOf<float>, {size, size});
//   }
//   TENON_POOL_FUNCTION(Decode);  // pool_function.h
//
//   absl::Status DecodeAll(std::vector<std::string> paths) {
//     TENON_ASSIGN_OR_RETURN(ProcessPool pool,
//                            ProcessPool::Create({.workers = 4}));
//     Future<Tensor> image = pool.Submit(Decode, "a.jpg", 224);
//     Future<std::vector<int64_t>> all = pool.Map(Measure, std::move(paths));
//     return all.Wait(absl::Seconds(60));
//   }
//
// A function's result arrives in its future; so does a failure: the function's
// error or exception (with ProcessRaised), the death of its worker (with
// ProcessExited; process_error.h), an expired deadline (kDeadlineExceeded), the
// end of the pool (kCancelled). The death of a worker fails only the task it
// was running; the worker is replaced.
//
// Future::RequestCancel() drops a task that waits for a worker: it fails with
// kCancelled, on the calling thread. A task that runs goes on, and its result
// arrives, unless TaskOptions::kill_on_cancel is set: then the task fails with
// kCancelled and its worker is killed. Of a Map(), the waiting chunks are
// dropped; the future completes when the running ones have ended.
//
// A worker runs one call at a time; calls start in the order of submission as
// workers become free. Callbacks of futures run on the pool's thread, or on a
// thread that Wait()s for the same future or for one that Then() derived from
// it: they must not block, and must not destroy the pool.

#ifndef TENON_SPAWN_POOL_PROCESS_POOL_H_
#define TENON_SPAWN_POOL_PROCESS_POOL_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/futures/future.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/pool_receiver.h"
#include "tenon/spawn/pool/result_stream.h"

namespace tenon::spawn {

class PoolDispatcher;  // A pool without its types.

struct TaskOptions {
  // A task that has not ended by then fails with kDeadlineExceeded; the worker
  // that runs it is killed and replaced.
  Deadline deadline = Deadline::Never();
  // Whether a cancel request kills (and replaces) the worker that runs the
  // task, or lets the task finish.
  bool kill_on_cancel = false;
};

struct MapOptions {
  // Calls sent to a worker at once; 0: a quarter of its share. Calls with more
  // than 252 descriptors or 256 MiB together are split over several messages.
  size_t chunk_size = 0;
  // The deadline of each chunk.
  Deadline deadline = Deadline::Never();
};

// Ownership: owns its workers; the destructor calls Abort(). Retains the
//   tensors of tasks that have not ended, and those of the initializer.
// Threads: thread-safe, except for destruction and moves.
// Processes: in a forked child, futures fail with kFailedPrecondition, counts
//   are zero, and the destructor does nothing.
// Trust: answers are validated; a worker that sends malformed messages is
//   killed, and its task fails with kDataLoss. Bytes that do not decode as the
//   result's type fail only the task.
class ProcessPool {
 public:
  // Starts the minimum number of workers, in parallel.
  // Errors: kInvalidArgument, kNotFound, kFailedPrecondition for bad options
  // (pool_options.h); those of Process::Start().
  static absl::StatusOr<ProcessPool> Create(PoolOptions options = {});

  ~ProcessPool();
  ProcessPool(ProcessPool&&) noexcept = default;
  ProcessPool& operator=(ProcessPool&&) = delete;

  // Runs `function` once. Arguments are converted to its parameters, and moved
  // or shared as described in start.h. Blocks only while the call is sent.
  // Errors arrive in the future: kNotFound if `function` is not a
  // TENON_POOL_FUNCTION, and those above.
  template <typename R, typename... P, typename... A>
  auto Submit(R (*function)(P...), A&&... arguments) const {
    return SubmitWith(TaskOptions(), function, std::forward<A>(arguments)...);
  }
  template <typename R, typename... P, typename... A>
  futures::Future<typename internal_pool::ResultOf<R>::Type> SubmitWith(
      const TaskOptions& options, R (*function)(P...), A&&... arguments) const {
    using Result = typename internal_pool::ResultOf<R>::Type;
    return Call<Result>(
        options, NameOfPooled(reinterpret_cast<void (*)()>(function)),
        PackCall<std::decay_t<P>...>(std::forward<A>(arguments)...));
  }

  // Submit() for a function known by its name, with the result T (or void).
  // Errors: also kInvalidArgument if its parameters or result have other types.
  template <typename T, typename... A>
  futures::Future<T> SubmitByName(absl::string_view function,
                                  A&&... arguments) const {
    return Call<T>(
        TaskOptions(),
        CheckPooled(function, absl::StrCat(Signature<TravelsAs<A>...>(), " -> ",
                                           internal_pool::ResultName<T>())),
        PackCall<TravelsAs<A>...>(std::forward<A>(arguments)...));
  }

  // Runs `function`, of one parameter, for each input, in chunks. The future
  // holds the results in the inputs' order; or, once all calls have ended, the
  // error of the first input that failed. Without inputs it completes at once.
  template <typename R, typename P>
  auto Map(R (*function)(P), const std::vector<std::decay_t<P>>& inputs,
           const MapOptions& options = {}) const;

  // Produces results, and consumes inputs, one at a time on demand:
  // result_stream.h. `next` returns an input, or nullopt at the end, or an
  // error, which then arrives as the last result.
  template <typename R, typename P>
  ResultStream<typename internal_pool::ResultOf<R>::Type> Stream(
      R (*function)(P), InputGenerator<std::decay_t<P>> next,
      const StreamOptions& options = {}) const;

  // Accepts no more tasks, waits until all submitted tasks have ended, and ends
  // the workers. Blocks until `deadline`.
  // Errors: kDeadlineExceeded: the shutdown continues; kFailedPrecondition from
  // a callback.
  absl::Status Shutdown(Deadline deadline = Deadline::Never());

  // Kills the workers; unfinished tasks fail with kCancelled. Returns when no
  // worker is left; in a callback, at once.
  void Abort();

  // Numbers of workers that are not about to end, and of tasks that wait for
  // one.
  PoolCounts counts() const;
  std::vector<pid_t> worker_pids() const;

 private:
  explicit ProcessPool(std::unique_ptr<PoolDispatcher> core);

  static absl::StatusOr<std::string> NameOfPooled(void (*function)());
  static absl::StatusOr<std::string> CheckPooled(absl::string_view function,
                                                 const std::string& signature);

  template <typename T>
  futures::Future<T> Call(const TaskOptions& options,
                          absl::StatusOr<std::string> function,
                          absl::StatusOr<PackedArguments> arguments) const;

  uint64_t NewTaskId() const;
  void SubmitOne(uint64_t id, const TaskOptions& options,
                 absl::StatusOr<std::string> function,
                 absl::StatusOr<PackedArguments> arguments,
                 std::unique_ptr<PoolReceiver> receiver) const;
  // Submits `count` calls in chunks; `pack` makes the i-th call, and
  // `receiver_of` the receiver of its answer.
  void SubmitChunks(
      uint64_t id, const MapOptions& options,
      const absl::StatusOr<std::string>& function, size_t count,
      absl::FunctionRef<absl::StatusOr<PackedArguments>(size_t)> pack,
      absl::FunctionRef<std::unique_ptr<PoolReceiver>(size_t)> receiver_of)
      const;

  // Shared with the streams, which may outlive the pool.
  std::shared_ptr<PoolDispatcher> core_;
  uint64_t fork_count_;
};

}  // namespace tenon::spawn

#include "tenon/spawn/pool/process_pool_definitions.h"  // IWYU pragma: export

#endif  // TENON_SPAWN_POOL_PROCESS_POOL_H_
