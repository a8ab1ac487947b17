// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorQueueParts: the parts of a TensorQueue. Internal to it.

#ifndef TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_PARTS_H_
#define TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_PARTS_H_

#include <memory>
#include <utility>

#include "tenon/ipc/queue/internal/queue_core.h"
#include "tenon/ipc/tensor_codec/tensor_decoder.h"
#include "tenon/ipc/tensor_queue/tensor_sender.h"
#include "tenon/shm/arena/arena_limits.h"
#include "tenon/shm/tensor/exchange/tensor_importer_options.h"

namespace tenon {

struct TensorQueueParts {
  TensorQueueParts(std::unique_ptr<QueueCore> records,
                   const ArenaTensorImporterOptions& arenas,
                   const TensorImporterOptions& segments)
      : queue(std::move(records)), decoder(arenas, segments) {}

  const std::unique_ptr<QueueCore> queue;
  TensorDecoder decoder;
  std::unique_ptr<TensorSender> sender;  // Refers to both.
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_QUEUE_TENSOR_QUEUE_PARTS_H_
