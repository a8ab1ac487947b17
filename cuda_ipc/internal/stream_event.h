// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// StreamEvent: a point in the work of a stream, within this process.
// StreamUses: the streams that a thread makes current meanwhile. Internal to
// stream futures.

#ifndef TENON_CUDA_IPC_INTERNAL_STREAM_EVENT_H_
#define TENON_CUDA_IPC_INTERNAL_STREAM_EVENT_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon::cuda_ipc {

// Ownership: held by shared_ptr; its destructor makes no driver call.
// Threads: const, so any number. Processes: of the process that recorded it.
class StreamEvent {
 public:
  // Errors: EventPool::Record()'s.
  static absl::StatusOr<std::shared_ptr<const StreamEvent>> Record(
      const DeviceContext& device, CUstream stream, absl::string_view call);
  ~StreamEvent();
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  const DeviceContext& device() const { return device_; }

  // Later work of `stream`, of any device, waits; the host does not. Errors:
  // CheckNotCaptured()'s; those of CudaError.
  absl::Status WaitOn(const DeviceContext& device, CUstream stream) const;
  // OK once it has fired, kUnavailable before. Errors: those of CudaError.
  absl::Status Check() const;

 private:
  StreamEvent(const DeviceContext& device, CUevent event)
      : device_(device), event_(event) {}

  const DeviceContext& device_;
  const CUevent event_;
};

using Storages = std::vector<std::shared_ptr<const Storage>>;

// Keeps the storages until the stream is past this place of its work. Errors:
// EventPool::Record()'s; kResourceExhausted.
absl::Status RetainOn(const DeviceContext& device, CUstream stream,
                      Storages storages);

// While it lives, on its thread: notes each stream that becomes current.
class StreamUses {
 public:
  StreamUses();
  ~StreamUses();
  StreamUses(const StreamUses&) = delete;
  StreamUses& operator=(const StreamUses&) = delete;

  void Note(const DeviceContext& device, CUstream stream);
  // RetainOn() each of them.
  absl::Status Retain(const Storages& storages) const;

 private:
  StreamUses* const outer_;
  std::vector<std::pair<const DeviceContext*, CUstream>> streams_;
};

// A stream of the process for callbacks: of 32 for each device, each in turn.
// They are made when they are first needed, and never destroyed. Thread-safe.
// Errors: those of CudaError.
absl::StatusOr<CUstream> NextPoolStream(const DeviceContext& device);

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_STREAM_EVENT_H_
