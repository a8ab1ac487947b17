// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// QueueOptions: the options of a new queue of any form.

#ifndef TENON_IPC_QUEUE_QUEUE_OPTIONS_H_
#define TENON_IPC_QUEUE_QUEUE_OPTIONS_H_

#include <cstddef>
#include <string>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

struct QueueOptions {
  // In errors, and as the memory's label: see CheckShmPrefix() in shm_name.h.
  std::string name = "queue";
  // Items that each participant may have queued. Memory is reserved for all
  // participants at once.
  size_t capacity = 1024;
  // Participants at the same time, each Queue object counted; up to 64. A
  // handle has two descriptors for each. A dead participant does not count.
  size_t max_participants = 8;
  // The behaviour of a call that has to wait when all other participants have
  // left or died: return kUnavailable, or wait for new participants until its
  // deadline.
  bool wait_when_alone = false;
};

}  // namespace tenon

#endif  // TENON_IPC_QUEUE_QUEUE_OPTIONS_H_
