// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SimFence: the sleeper's fence in the seeded simulations, for publishers with
// or without a fence of their own (sleep_protocol.h).

#ifndef TENON_IPC_DOORBELL_SIM_FENCE_H_
#define TENON_IPC_DOORBELL_SIM_FENCE_H_

#include "tenon/ipc/doorbell/sleep_protocol.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"

namespace tenon {

struct SimFence {
  Publication publication;
  void operator()() const {
    if (publication == Publication::kFenced) SimAtomics::FenceAll();
  }
};

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_SIM_FENCE_H_
