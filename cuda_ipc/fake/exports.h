// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What the fake driver exports: the functions of cuda_api.h, apart from those
// that run kernels, under libcuda's names. A definition with another signature
// does not compile.

#ifndef TENON_CUDA_IPC_FAKE_EXPORTS_H_
#define TENON_CUDA_IPC_FAKE_EXPORTS_H_

#include "tenon/cuda_ipc/cuda_api.h"

namespace tenon::cuda_ipc::fake {

#define TENON_FAKE_DECLARE(symbol, parameters) CUresult symbol parameters;
#define TENON_FAKE_DECLARE_OPTIONAL(feature, symbol, parameters) \
  CUresult symbol parameters;
extern "C" {
TENON_CUDA_REQUIRED_FUNCTIONS(TENON_FAKE_DECLARE)
TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_FAKE_DECLARE_OPTIONAL)
}
#undef TENON_FAKE_DECLARE
#undef TENON_FAKE_DECLARE_OPTIONAL

// NOLINTBEGIN(readability-identifier-naming): CUDA's names.
#define TENON_FAKE_ENTRY(symbol, parameters) symbol,
#define TENON_FAKE_OPTIONAL_ENTRY(feature, symbol, parameters) symbol,
enum class Entry {
  TENON_CUDA_REQUIRED_FUNCTIONS(TENON_FAKE_ENTRY)
      TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_FAKE_OPTIONAL_ENTRY) kCount
};
#undef TENON_FAKE_ENTRY
#undef TENON_FAKE_OPTIONAL_ENTRY
// NOLINTEND(readability-identifier-naming)

// What an entry needs of its caller.
enum Need : unsigned {
  kNothing = 0,
  kInitialized = 1,  // cuInit, in this process; not in a host function.
  kContext = 3,      // Also a current context of this thread.
};

// The result of a call that does not come further than its start; else
// CUDA_SUCCESS. In this order: the fault that is due, a forked process, a host
// function, no cuInit, the error that ended the process's contexts, no context.
CUresult Enter(Entry entry, Need need);

#define TENON_FAKE_ENTER(symbol, need)                     \
  if (const CUresult entered = Enter(Entry::symbol, need); \
      entered != CUDA_SUCCESS) {                           \
    return entered;                                        \
  }

// Ends all work of this process on devices, as a device does after a fault: all
// further calls return `error`.
CUresult EndAllWork(CUresult error);
// The error of EndAllWork(), or CUDA_SUCCESS.
CUresult EndedBy();

// Calls of this thread fail from now on, as in a function of cuLaunchHostFunc.
void EnterHostFunction();
void LeaveHostFunction();

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_EXPORTS_H_
