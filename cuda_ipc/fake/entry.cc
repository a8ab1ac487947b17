// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The start of every call, and what a process as a whole has: whether it has
// called cuInit, and the error that ended its work.

#include <unistd.h>

#include <atomic>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/entry_state.h"
#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/faults.h"

namespace tenon::cuda_ipc::fake {
namespace {

// The process that has called cuInit. A forked child inherits the number, and
// is another.
std::atomic<pid_t> initialized_by = 0;
std::atomic<CUresult> ended_by = CUDA_SUCCESS;
thread_local bool is_in_host_function = false;

}  // namespace

bool SetInitialized() {
  const pid_t self = getpid();
  pid_t expected = 0;
  return initialized_by.compare_exchange_strong(expected, self) ||
         expected == self;
}

void ResetInitialized() {
  initialized_by = 0;
  ended_by = CUDA_SUCCESS;
}

CUresult EndAllWork(CUresult error) {
  CUresult expected = CUDA_SUCCESS;
  ended_by.compare_exchange_strong(expected, error);
  return ended_by;
}

CUresult EndedBy() { return ended_by; }

void EnterHostFunction() { is_in_host_function = true; }
void LeaveHostFunction() { is_in_host_function = false; }

CUresult Enter(Entry entry, Need need) {
  const CUresult fault = CountCall(entry);
  if (fault != CUDA_SUCCESS || need == kNothing) return fault;
  if (is_in_host_function) return CUDA_ERROR_NOT_PERMITTED;
  if (initialized_by != getpid()) return CUDA_ERROR_NOT_INITIALIZED;
  if (ended_by != CUDA_SUCCESS) return ended_by;
  return need == kContext ? CheckContext() : CUDA_SUCCESS;
}

}  // namespace tenon::cuda_ipc::fake
