// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimpleQueue<T>: a Queue<T> (queue.h) with only Put(), Get() and empty(), for
// code that waits without deadlines.
//
//   TENON_ASSIGN_OR_RETURN(auto queue, SimpleQueue<int>::Create());
//   TENON_RETURN_IF_ERROR(queue.Put(1));
//   TENON_ASSIGN_OR_RETURN(int one, queue.Get());

#ifndef TENON_IPC_QUEUE_SIMPLE_QUEUE_H_
#define TENON_IPC_QUEUE_SIMPLE_QUEUE_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/queue/queue_options.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {

// As Queue<T>; a handle of one opens the other. Calls wait without a deadline,
// but not for dead participants: kUnavailable as in Queue<T>.
template <QueueValue T>
class SimpleQueue {
 public:
  static absl::StatusOr<SimpleQueue> Create(const QueueOptions& options = {}) {
    return Wrap(Queue<T>::Create(options));
  }
  static absl::StatusOr<SimpleQueue> Open(QueueHandle&& handle) {
    return Wrap(Queue<T>::Open(std::move(handle)));
  }
  absl::StatusOr<QueueHandle> Share() const { return queue_.Share(); }

  absl::Status Put(const T& item) {
    return queue_.Put(item, Deadline::Never());
  }
  absl::StatusOr<T> Get() { return queue_.Get(Deadline::Never()); }
  bool empty() const { return queue_.empty(); }

 private:
  explicit SimpleQueue(Queue<T> queue) : queue_(std::move(queue)) {}
  static absl::StatusOr<SimpleQueue> Wrap(absl::StatusOr<Queue<T>> queue) {
    if (!queue.ok()) return queue.status();
    return SimpleQueue(*std::move(queue));
  }

  Queue<T> queue_;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_SIMPLE_QUEUE_H_
