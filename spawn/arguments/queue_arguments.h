// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArgumentTraits of queues: Queue, SimpleQueue, JoinableQueue, Pipe, and
// TensorQueue by its std::unique_ptr.
//
//   absl::Status Work(int index, Queue<Job> jobs,
//                     std::unique_ptr<TensorQueue> results) {
//     return absl::OkStatus();
//   }
//   TENON_SPAWN_FUNCTION(Work);
//
// The sender keeps its queue, and each child is one more participant. A Pipe
// sends its other end, to one process. The sender must keep its object until
// the children have opened theirs: queue.h explains why. If all children of
// Start() end before one has opened it, calls of the sender that wait end with
// kUnavailable, which names a child.

#ifndef TENON_SPAWN_ARGUMENTS_QUEUE_ARGUMENTS_H_
#define TENON_SPAWN_ARGUMENTS_QUEUE_ARGUMENTS_H_

#include <memory>
#include <string>
#include <typeinfo>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/queue_value.h"
#include "tenon/spawn/arguments/argument.h"

// A file that sends one of them includes its header.
namespace tenon {
struct QueueHandle;
class TensorQueue;
template <QueueValue T>
class JoinableQueue;
template <QueueValue T>
class Pipe;
template <QueueValue T>
class Queue;
template <QueueValue T>
class SimpleQueue;
}  // namespace tenon

namespace tenon::spawn {

absl::Status PackQueueHandle(absl::StatusOr<QueueHandle> handle,
                             ArgumentWriter& to);
absl::Status UnpackQueueHandle(ArgumentReader& from, QueueHandle& handle);

// For a type that has Share(), and is reopened by Q::Open(handle). QueueHandle
// is complete where Q is; `Handle` makes the template wait until then.
template <typename Q, typename Handle = QueueHandle>
struct QueueTraits {
  static std::string Name() { return ReadableTypeName(typeid(Q)); }
  static absl::Status Pack(const Q& queue, ArgumentWriter& to) {
    return PackQueueHandle(queue.Share(), to);
  }
  static absl::StatusOr<Q> Unpack(ArgumentReader& from) {
    Handle handle;
    const absl::Status unpacked = UnpackQueueHandle(from, handle);
    if (!unpacked.ok()) return unpacked;
    return Q::Open(std::move(handle));
  }
};

template <typename T>
struct ArgumentTraits<Queue<T>> : QueueTraits<Queue<T>> {};
template <typename T>
struct ArgumentTraits<SimpleQueue<T>> : QueueTraits<SimpleQueue<T>> {};
template <typename T>
struct ArgumentTraits<JoinableQueue<T>> : QueueTraits<JoinableQueue<T>> {};

template <typename T>
struct ArgumentTraits<Pipe<T>> : QueueTraits<Pipe<T>> {
  static absl::Status Pack(const Pipe<T>& pipe, ArgumentWriter& to) {
    to.SetExclusive("the other end of a Pipe");
    return QueueTraits<Pipe<T>>::Pack(pipe, to);
  }
};

template <>
struct ArgumentTraits<std::unique_ptr<TensorQueue>> {
  static std::string Name() { return "tenon::TensorQueue"; }
  static absl::Status Pack(const std::unique_ptr<TensorQueue>& queue,
                           ArgumentWriter& to);
  static absl::StatusOr<std::unique_ptr<TensorQueue>> Unpack(
      ArgumentReader& from);
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_QUEUE_ARGUMENTS_H_
