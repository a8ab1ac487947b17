// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ProcessPool: child processes that run functions, and futures of the results.
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
// What a function returns arrives in its future; so does why it has not: its
// error or exception (with ProcessRaised), the death of its worker (with
// ProcessExited; process_error.h), its deadline (kDeadlineExceeded), the end of
// the pool (kCancelled). A worker that dies takes its own task with it and no
// other, and is replaced.
//
// Future::RequestCancel() drops a task that waits for a worker: kCancelled, on
// the thread that asks. One that runs goes on, and its result arrives, unless
// TaskOptions::kill_on_cancel says that it fails with kCancelled and its worker
// is killed. Of a Map(), the chunks that wait are dropped; the future ends when
// those that run have.
//
// One call at a time runs in a worker, in the order of submission as far as
// workers are free. Callbacks of futures run on the pool's thread, or on that
// of one who Wait()s for the same future or for what Then() has made of it:
// they must not block, and must not destroy the pool.

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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/futures/future.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/pool/internal/pool_dispatcher.h"
#include "tenon/spawn/pool/internal/pool_receivers.h"
#include "tenon/spawn/pool/pool_function.h"
#include "tenon/spawn/pool/pool_options.h"
#include "tenon/spawn/pool/result_stream.h"

namespace tenon::spawn {

struct TaskOptions {
  // A task that has not ended by then fails with kDeadlineExceeded; the worker
  // that runs it is killed, and replaced.
  Deadline deadline = Deadline::Never();
  // Whether a request to cancel kills the worker that runs the task, which is
  // then replaced, or leaves it alone.
  bool kill_on_cancel = false;
};

struct MapOptions {
  // How many calls go to a worker at once; 0: a quarter of its share. Fewer do
  // where they are more than 252 descriptors or 256 MiB.
  size_t chunk_size = 0;
  // Of each chunk.
  Deadline deadline = Deadline::Never();
};

// Ownership: owns its workers; destroying it is Abort(). Has a share in the
//   tensors of tasks that have not ended, and of the initializer.
// Threads: thread-safe, but for destruction and moving.
// Processes: in a forked child, futures fail with kFailedPrecondition, counts
//   are zero, and the destructor does nothing.
// Trust: answers are checked; a worker whose messages are garbage is killed,
//   and its task fails with kDataLoss. Bytes that are no value of the result's
//   type fail the task alone.
class ProcessPool {
 public:
  // Starts the least number of workers, side by side.
  // Errors: kInvalidArgument, kNotFound, kFailedPrecondition for bad options
  // (pool_options.h); those of Process::Start().
  static absl::StatusOr<ProcessPool> Create(PoolOptions options = {});

  ~ProcessPool();
  ProcessPool(ProcessPool&&) noexcept = default;
  ProcessPool& operator=(ProcessPool&&) = delete;

  // Runs `function` once. Arguments are converted to its parameters, and given
  // away or shared as start.h says. Does not block but for what it sends.
  // Errors arrive in the future: kNotFound if it is no TENON_POOL_FUNCTION, and
  // those above.
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

  // The same for a function known by its name, with the result T (or void).
  // Errors: also kInvalidArgument if it takes or returns something else.
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
  // has the results in the inputs' order; or, once all have ended, the error of
  // the first input that failed. No inputs: done at once.
  template <typename R, typename P>
  auto Map(R (*function)(P), const std::vector<std::decay_t<P>>& inputs,
           const MapOptions& options = {}) const;

  // The results one by one as they are asked for, and the inputs likewise:
  // result_stream.h. `next` gives an input, or nothing at the end, or an error,
  // which then arrives as the last result.
  template <typename R, typename P>
  ResultStream<typename internal_pool::ResultOf<R>::Type> Stream(
      R (*function)(P), InputGenerator<std::decay_t<P>> next,
      const StreamOptions& options = {}) const;

  // Accepts nothing more, waits until all that was submitted has ended, and
  // ends the workers. Blocks until `deadline`.
  // Errors: kDeadlineExceeded: it goes on; kFailedPrecondition from a callback.
  absl::Status Shutdown(Deadline deadline = Deadline::Never());

  // Kills the workers; what has not ended fails with kCancelled. Returns when
  // no worker is left; in a callback, at once.
  void Abort();

  // Of workers that are not about to end; of tasks that wait for one.
  PoolCounts counts() const { return core_->counts(); }
  std::vector<pid_t> worker_pids() const { return core_->WorkerPids(); }

 private:
  explicit ProcessPool(std::unique_ptr<PoolDispatcher> core);

  static absl::StatusOr<std::string> NameOfPooled(void (*function)());
  static absl::StatusOr<std::string> CheckPooled(absl::string_view function,
                                                 const std::string& signature);

  template <typename T>
  futures::Future<T> Call(const TaskOptions& options,
                          absl::StatusOr<std::string> function,
                          absl::StatusOr<PackedArguments> arguments) const;

  // Shared with the streams, which may outlive this.
  std::shared_ptr<PoolDispatcher> core_;
  uint64_t fork_count_;
};

}  // namespace tenon::spawn

#include "tenon/spawn/pool/process_pool_definitions.h"  // IWYU pragma: export

#endif  // TENON_SPAWN_POOL_PROCESS_POOL_H_
