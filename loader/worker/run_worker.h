// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// RunWorker: the life of a worker, in a process or a thread.

#ifndef TENON_LOADER_WORKER_RUN_WORKER_H_
#define TENON_LOADER_WORKER_RUN_WORKER_H_

#include "absl/status/status.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/worker/messages.h"

namespace tenon::loader {

// Makes the dataset of `recipe`, and then the batches of the tasks that come
// over a ring (messages.h), in an arena of its own, until the loader closes the
// ring or dies. Writes to `note` what it does. `control` and `note` must
// outlive the call.
// Errors: those of setup.worker_init; DatasetRecipe::Make()'s;
// kFailedPrecondition if the dataset is another one than in the consumer, by
// its spec, shards or thread_safe(); kResourceExhausted at a limit of this
// process.
absl::Status RunWorker(int index, const WorkerSetup& setup,
                       const DatasetRecipe& recipe, Channel channel,
                       const WorkerControl& control, WorkerNote& note);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_RUN_WORKER_H_
