// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Several futures of one type at once.
//
//   Future<std::vector<Batch>> all = CollectAll(std::move(batches));
//   TENON_RETURN_IF_ERROR(all.Wait(absl::Seconds(5)));
//
// What each returns:
//
//                      done when              result
//   CollectAll         all are, or one fails  the values; or that error
//   CollectAllSettled  all are                what each ended with
//   CollectAny         one is                 which one, what it ended with
//   WaitAll            as CollectAll, but it blocks, has a deadline, and leaves
//                      the futures where they are if it does not succeed
//
// Results are in the order of the futures. The time is linear in their number,
// and nothing recurses. An empty future among them counts as failed, with
// kFailedPrecondition.
//
// Ownership: the three that collect take the futures over. What they were given
//   stays until every one of them is done, also after an early end.
// Threads: the collected future completes on the thread that completes the last
//   that mattered. Asking it to cancel asks all that were collected. An early
//   end cancels nothing.
// Processes, Trust: as Future.
// Failure: no deadlines of their own; Wait() of what they return has one.

#ifndef TENON_FUTURES_COLLECT_H_
#define TENON_FUTURES_COLLECT_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tenon/futures/future.h"

namespace tenon::futures {

// The values of all, done at once if there are none to wait for. The first
// failure in time completes it with that error.
template <typename T>
Future<std::vector<T>> CollectAll(std::vector<Future<T>> futures);
Future<void> CollectAll(std::vector<Future<void>> futures);

// What each ended with, once all have ended; never an error itself. Done at
// once if there are none.
template <typename T>
Future<std::vector<Result<T>>> CollectAllSettled(
    std::vector<Future<T>> futures);

template <typename T>
struct FirstDone {
  size_t index;
  Result<T> result;
};

// The first that is done, with a value or an error. The others are let go on.
// Errors: kInvalidArgument at once if there are none, as nothing could come.
template <typename T>
Future<FirstDone<T>> CollectAny(std::vector<Future<T>> futures);

// Blocks until all are done, then moves their values out, which leaves the
// futures empty. No futures are no values. In a callback it may be called as
// Future::Wait may. A call that ends early leaves a few words with each future
// that is not done, until it is.
// Errors, which leave every future as it was: kDeadlineExceeded, with how many
// are not done; the error of the first that fails, without waiting for others.
template <typename T>
absl::StatusOr<std::vector<T>> WaitAll(
    std::vector<Future<T>>& futures,
    absl::Duration timeout = absl::InfiniteDuration());
absl::Status WaitAll(std::vector<Future<void>>& futures,
                     absl::Duration timeout = absl::InfiniteDuration());

}  // namespace tenon::futures

#include "tenon/futures/collect_definitions.h"  // IWYU pragma: export

#endif  // TENON_FUTURES_COLLECT_H_
