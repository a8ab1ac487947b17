// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Primary contexts of the devices, and each thread's stack of current ones.

#ifndef TENON_CUDA_IPC_FAKE_CONTEXTS_H_
#define TENON_CUDA_IPC_FAKE_CONTEXTS_H_

#include <string>
#include <vector>

#include "tenon/cuda_ipc/cuda_api.h"

// Never deleted, so that a use after its end is noticed.
struct CUctx_st {
  int device = -1;
  int retained = 0;
  bool is_destroyed = false;
};

namespace tenon::cuda_ipc::fake {

// This thread's context; null if there is none.
CUcontext CurrentContext();

// CUDA_SUCCESS if this thread has a current context that is not destroyed.
CUresult CheckContext();

bool IsDevice(int device);

// Retained contexts, for the report of leaks. With TableLock().
void AddContextLeaks(std::vector<std::string>& leaks);

// Forgets all contexts, and this thread's stack. With TableLock().
void ResetContexts();

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_CONTEXTS_H_
