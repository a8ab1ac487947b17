// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StreamPromise and StreamFuture: a value whose tensors streams may still be
// filling.
//
//   TENON_ASSIGN_OR_RETURN(auto promise, StreamPromise<Tensor>::Create());
//   StreamFuture<Tensor> doubled =
//       promise.future().Then([](absl::StatusOr<Tensor> value) {
//         // Kernels on CurrentStream(), which waits for the value.
//         return value;
//       });
//   {
//     const StreamScope scope(*gpu, stream);
//     // Kernels on `stream` fill `tensor`; then, without waiting,
//     TENON_RETURN_IF_ERROR(promise.SetValue(tensor));
//   }
//   const StreamScope scope(*gpu, theirs);
//   TENON_ASSIGN_OR_RETURN(Tensor result, doubled.Wait());
//   // Later work on `theirs` sees the contents. No host has waited for kernels.
//
// A future is done when the work has been enqueued and later work can be
// ordered after it, as in torch. For each device on which the value has
// tensors:
// - SetValue() records an event on the current stream (stream_scope.h);
// - Wait() makes the current stream of the waiter wait for it;
// - a callback runs with a stream of a pool as the current one, which waits for
//   it, and its result gets events of its own. The tensors of its argument and
//   of its result are kept until each stream that was current during the
//   callback has come past it.
// The devices are those of the value's tensors: none has to be listed, and a
// thread without a current stream of one of them gets an error.
//
// A value of another process has fences (fence.h). They stay with what
// callbacks make of it: if one is lost, WaitOnHost() of each of these is
// kDataLoss.

#ifndef TENON_CUDA_IPC_STREAM_FUTURE_H_
#define TENON_CUDA_IPC_STREAM_FUTURE_H_

#include <concepts>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/cuda_ipc/stream_scope.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {

class StreamEvent;
class StreamUses;

// What VisitTensors() calls for each tensor of a value.
class TensorVisitor {
 public:
  explicit TensorVisitor(std::vector<Tensor>* tensors) : tensors_(*tensors) {}
  void operator()(const Tensor& tensor) const { tensors_.push_back(tensor); }

 private:
  std::vector<Tensor>& tensors_;
};

// The tensors of a value. Another type of values has a function of this name in
// its namespace; without one it does not compile:
//
//   struct Batch { Tensor images, labels; };
//   void VisitTensors(const Batch& batch, const TensorVisitor& visit) {
//     visit(batch.images);
//     visit(batch.labels);
//   }
inline void VisitTensors(const Tensor& tensor, const TensorVisitor& visit) {
  visit(tensor);
}
template <typename T>
requires(std::is_arithmetic_v<T> || std::is_enum_v<T> ||
         std::same_as<T, std::string> ||
         std::same_as<T, std::monostate>) void VisitTensors(const T& /*value*/,
                                                            const TensorVisitor&
                                                            /*visit*/) {}
template <typename T>
void VisitTensors(const std::vector<T>& values, const TensorVisitor& visit) {
  for (const T& value : values) VisitTensors(value, visit);
}
template <typename T>
void VisitTensors(const std::optional<T>& value, const TensorVisitor& visit) {
  if (value.has_value()) VisitTensors(*value, visit);
}
template <typename T, typename U>
void VisitTensors(const std::pair<T, U>& value, const TensorVisitor& visit) {
  VisitTensors(value.first, visit);
  VisitTensors(value.second, visit);
}

namespace internal_stream_future {

template <typename T>
std::vector<Tensor> TensorsOf(const T& value) {
  std::vector<Tensor> tensors;
  VisitTensors(value, TensorVisitor(&tensors));
  return tensors;
}

using Devices = std::set<int>;  // Ordinals.

absl::StatusOr<Devices> DevicesOf(const std::vector<DLDevice>& devices);

// Those of the tensors that are on devices.
std::vector<std::shared_ptr<const Storage>> DeviceStoragesOf(
    const std::vector<Tensor>& tensors);

// What orders later work after a value.
class ValueOrder {
 public:
  ValueOrder() = default;
  // Records an event on the current stream of each device of the tensors, after
  // the fences. Errors: kInvalidArgument if a device is not in `allowed`, which
  // is not empty; those of CurrentStream() and CudaError.
  static absl::StatusOr<ValueOrder> Record(const std::vector<Tensor>& tensors,
                                           const Devices& allowed,
                                           const std::vector<Fence>& fences);

  // Current streams wait. Errors: kDataLoss if a fence is known to be lost.
  absl::Status WaitOnCurrent() const;
  // The host waits for the streams.
  absl::Status WaitOnHost(Deadline deadline) const;

  Devices devices() const;
  const std::vector<Fence>& fences() const { return fences_; }
  const std::vector<std::shared_ptr<const Storage>>& storages() const {
    return storages_;
  }

 private:
  std::vector<std::shared_ptr<const StreamEvent>> events_;
  std::vector<Fence> fences_;  // That had not been reached.
  // Of the value when it was set, whatever becomes of it.
  std::vector<std::shared_ptr<const Storage>> storages_;
};

// During a callback, on its thread: a stream of the pool of each device is the
// current one.
class CallbackStreams {
 public:
  CallbackStreams();
  ~CallbackStreams();
  CallbackStreams(const CallbackStreams&) = delete;
  CallbackStreams& operator=(const CallbackStreams&) = delete;

  absl::Status Enter(const Devices& devices);
  // Keeps the storages also until Retain(), or until the end of this if the
  // callback throws; then for the streams that the callback has used.
  void Keep(std::vector<std::shared_ptr<const Storage>> storages);
  absl::Status Retain();

 private:
  std::unique_ptr<StreamUses> uses_;
  std::vector<std::shared_ptr<const Storage>> storages_;
  std::vector<std::unique_ptr<StreamScope>> scopes_;  // Ended from the back.
};

template <typename T>
struct Ordered {
  T value;
  ValueOrder order;
};

// U of what a callback returns: U, absl::StatusOr<U>, or nothing.
template <typename R>
struct ResultOf {
  using U = R;
};
template <typename R>
struct ResultOf<absl::StatusOr<R>> {
  using U = R;
};
template <>
struct ResultOf<void> {
  using U = std::monostate;
};

template <typename F, typename Argument>
auto Call(F& callback, Argument argument) -> absl::StatusOr<
    typename ResultOf<std::invoke_result_t<F&, Argument>>::U> {
  if constexpr (std::is_void_v<std::invoke_result_t<F&, Argument>>) {
    callback(std::move(argument));
    return std::monostate();
  } else {
    return callback(std::move(argument));
  }
}

}  // namespace internal_stream_future

struct StreamFutureOptions {
  // Bounds the devices on which the value may have tensors, also for the
  // futures of its callbacks, and gives each callback a current stream of each
  // of them. Empty: any device; a callback has streams of those of its value.
  std::vector<DLDevice> devices;
};

// Ownership, threads, processes: as futures::Future<T>. The value is kept, and
//   with it its tensors, as long as the future or a callback.
// Failure: an error of the driver arrives as the result.
// T: a type with VisitTensors() whose move constructor is noexcept.
template <typename T>
class [[nodiscard]] StreamFuture {
 public:
  StreamFuture() = default;

  // Whether the work has been enqueued, or has failed. Never blocks.
  bool done() const { return future_.done(); }

  // Blocks until done; then the current streams of this thread wait for the
  // value, and the host does not. Call RecordUse() before the value is dropped
  // if streams use it.
  // Errors: the result's own; kDeadlineExceeded, and kFailedPrecondition if
  // this thread has no current stream of a device of the value: both leave the
  // future as it is; kDataLoss if a fence is lost; those of CudaError.
  absl::StatusOr<T> Wait(
      absl::Duration timeout = absl::InfiniteDuration()) const {
    TENON_RETURN_IF_ERROR(future_.Wait(timeout));
    const auto& result = future_.value();
    TENON_RETURN_IF_ERROR(result.status());
    TENON_RETURN_IF_ERROR(result->order.WaitOnCurrent());
    return result->value;
  }
  absl::StatusOr<T> Wait(Deadline deadline) const {
    return Wait(deadline.Remaining());
  }

  // Blocks until the streams have filled the value. Errors: the result's own;
  // kDeadlineExceeded; kDataLoss if a fence is lost; those of CudaError.
  absl::Status WaitOnHost(Deadline deadline) const {
    TENON_RETURN_IF_ERROR(future_.Wait(deadline.Remaining()));
    const auto& result = future_.value();
    TENON_RETURN_IF_ERROR(result.status());
    return result->order.WaitOnHost(deadline);
  }

  // Calls `callback` once, with the absl::StatusOr<T>, on `executor`; returns
  // the future of what it returns: U, absl::StatusOr<U>, or nothing
  // (std::monostate). If the value cannot be ordered, its argument is the
  // error. There may be many callbacks of one future.
  template <typename F>
  auto Then(futures::Executor& executor, F callback) const {
    using internal_stream_future::Ordered;
    using Called = decltype(internal_stream_future::Call<F, absl::StatusOr<T>>(
        callback, std::declval<absl::StatusOr<T>>()));
    using U = typename Called::value_type;
    auto ordered = [callback = std::move(callback), devices = devices_](
                       absl::StatusOr<Ordered<T>> result) mutable {
      return RunOrdered<U>(callback, devices, std::move(result));
    };
    return StreamFuture<U>(future_.Then(executor, std::move(ordered)),
                           devices_);
  }
  template <typename F>
  auto Then(F callback) const {
    return Then(futures::InlineExecutor(), std::move(callback));
  }

 private:
  template <typename U>
  friend class StreamFuture;
  template <typename U>
  friend class StreamPromise;
  using Devices = internal_stream_future::Devices;
  using Inner = futures::Future<internal_stream_future::Ordered<T>>;

  StreamFuture(Inner future, Devices devices)
      : future_(std::move(future)), devices_(std::move(devices)) {}

  template <typename U, typename F>
  static absl::StatusOr<internal_stream_future::Ordered<U>> RunOrdered(
      F& callback, const Devices& allowed,
      absl::StatusOr<internal_stream_future::Ordered<T>> result) {
    internal_stream_future::ValueOrder before;
    if (result.ok()) before = std::move(result->order);
    Devices devices = allowed;
    devices.merge(before.devices());
    internal_stream_future::CallbackStreams streams;
    absl::Status status = result.status();
    status.Update(streams.Enter(devices));
    if (status.ok()) status.Update(before.WaitOnCurrent());
    absl::StatusOr<T> argument =
        status.ok() ? absl::StatusOr<T>(std::move(result->value)) : status;
    streams.Keep(before.storages());
    absl::StatusOr<U> made =
        internal_stream_future::Call(callback, std::move(argument));
    std::vector<Tensor> results;
    if (made.ok()) results = internal_stream_future::TensorsOf(*made);
    streams.Keep(internal_stream_future::DeviceStoragesOf(results));
    TENON_RETURN_IF_ERROR(streams.Retain());
    TENON_RETURN_IF_ERROR(made.status());
    TENON_ASSIGN_OR_RETURN(auto order,
                           internal_stream_future::ValueOrder::Record(
                               results, allowed, before.fences()));
    return internal_stream_future::Ordered<U>{*std::move(made),
                                              std::move(order)};
  }

  Inner future_;
  Devices devices_;
};

// Ownership, threads, processes: as futures::Promise<T>.
template <typename T>
class StreamPromise {
 public:
  // Errors: kInvalidArgument naming a device that is none of CUDA; kNotFound if
  // this process has no such device; those of GetDriver().
  static absl::StatusOr<StreamPromise> Create(
      const StreamFutureOptions& options = {}) {
    TENON_ASSIGN_OR_RETURN(auto devices,
                           internal_stream_future::DevicesOf(options.devices));
    return StreamPromise(std::move(devices));
  }

  // The future, once; later calls return an empty one.
  StreamFuture<T> future() {
    return StreamFuture<T>(promise_.future(), devices_);
  }

  // Completes the future with what has been enqueued to the current streams
  // until now, and, of another process, with the `fences` of the value. Runs
  // callbacks, which may block.
  // Errors: kFailedPrecondition if complete already. If the value cannot be
  // ordered, the future gets the error, too: kFailedPrecondition if this thread
  // has no current stream of a device of the value; kInvalidArgument if a
  // tensor is on a device that StreamFutureOptions::devices does not have;
  // kDataLoss if a fence is lost; those of CudaError.
  absl::Status SetValue(T value, const std::vector<Fence>& fences = {}) {
    absl::StatusOr<internal_stream_future::ValueOrder> order =
        internal_stream_future::ValueOrder::Record(
            internal_stream_future::TensorsOf(value), devices_, fences);
    if (!order.ok()) {
      TENON_RETURN_IF_ERROR(promise_.SetError(order.status()));
      return order.status();
    }
    return promise_.SetValue({std::move(value), *std::move(order)});
  }
  absl::Status SetError(absl::Status error) {
    return promise_.SetError(std::move(error));
  }

 private:
  explicit StreamPromise(internal_stream_future::Devices devices)
      : devices_(std::move(devices)) {}

  futures::Promise<internal_stream_future::Ordered<T>> promise_;
  internal_stream_future::Devices devices_;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_STREAM_FUTURE_H_
