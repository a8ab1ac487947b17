// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Several futures of one type at once.
//
//   Future<std::vector<Batch>> all = CollectAll(std::move(batches));
//   TENON_RETURN_IF_ERROR(all.Wait(absl::Seconds(5)));
//
// Results of each:
//
//                      done when              result
//   CollectAll         all are, or one fails  the values; or that error
//   CollectAllSettled  all are                the result of each
//   CollectAny         one is                 its index and its result
//   WaitAll            as CollectAll, but it blocks, has a deadline, and leaves
//                      the futures unchanged if it does not succeed
//
// Results are in the order of the futures. The time is linear in their number,
// and nothing recurses. An empty future among them counts as failed, with
// kFailedPrecondition.
//
// Ownership: the three that collect take over the futures, and retain them
//   until every one of them is done, also after an early end.
// Threads: the collected future completes on the thread that completes the last
//   future that matters. A cancel request for it is forwarded to all collected
//   futures. An early end cancels nothing.
// Processes, Trust: as Future.
// Failure: no deadlines of their own; Wait() on the returned future has one.

#ifndef TENON_FUTURES_COLLECT_H_
#define TENON_FUTURES_COLLECT_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/futures/future.h"

namespace tenon::futures {

// The values of all futures; done at once for an empty vector. The first
// failure in time completes it with that error.
template <typename T>
Future<std::vector<T>> CollectAll(std::vector<Future<T>> futures);
Future<void> CollectAll(std::vector<Future<void>> futures);

// The result of each future, once all are done; never an error itself. Done at
// once for an empty vector.
template <typename T>
Future<std::vector<Result<T>>> CollectAllSettled(
    std::vector<Future<T>> futures);

template <typename T>
struct FirstDone {
  size_t index;
  Result<T> result;
};

// The first future that is done, with a value or an error. The others continue.
// Errors: kInvalidArgument at once for an empty vector, which can never
// complete.
template <typename T>
Future<FirstDone<T>> CollectAny(std::vector<Future<T>> futures);

// Blocks until all are done, then moves their values out, which leaves the
// futures empty. An empty vector gives no values. May be called in a callback
// under the same rules as Future::Wait. A call that returns early leaves a
// small record with each future that is not done, until it is.
// Errors, which leave every future unchanged: kDeadlineExceeded, with the
// number of futures that are not done; the error of the first that fails,
// without waiting for the others.
template <typename T>
absl::StatusOr<std::vector<T>> WaitAll(
    std::vector<Future<T>>& futures,
    absl::Duration timeout = absl::InfiniteDuration());
absl::Status WaitAll(std::vector<Future<void>>& futures,
                     absl::Duration timeout = absl::InfiniteDuration());
template <typename T>
auto WaitAll(std::vector<Future<T>>& futures, Deadline deadline) {
  return WaitAll(futures, deadline.Remaining());
}

}  // namespace tenon::futures

#include "tenon/futures/collect_definitions.h"  // IWYU pragma: export

#endif  // TENON_FUTURES_COLLECT_H_
