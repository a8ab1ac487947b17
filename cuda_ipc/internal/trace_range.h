// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TraceRange: a range of this thread's time on the timeline of Nsight Systems
// or of another tool for NVTX, in the domain "tenon".
//
//   const TraceRange range("Fence::Wait");
//
// NVTX is header-only and part of the CUDA toolkit: where the build finds none,
// a range compiles to nothing. Else NVTX loads a tool from
// $NVTX_INJECTION64_PATH at the first range of a process; without one a range
// costs a few nanoseconds.
// Internal to cuda_ipc and loader/to_device.

#ifndef TENON_CUDA_IPC_INTERNAL_TRACE_RANGE_H_
#define TENON_CUDA_IPC_INTERNAL_TRACE_RANGE_H_

#ifdef TENON_HAS_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace tenon::cuda_ipc {

// Ranges of a thread nest: it is of the thread that made it.
// Processes: a forked child may go on with those of its parent.
class TraceRange {
 public:
  // `name` is a literal: the function of Tenon.
#ifdef TENON_HAS_NVTX
  explicit TraceRange(const char* name) {
    nvtxEventAttributes_t attributes = {};
    attributes.version = NVTX_VERSION;
    attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = name;
    nvtxDomainRangePushEx(Domain(), &attributes);
  }
  ~TraceRange() { nvtxDomainRangePop(Domain()); }
#else
  explicit TraceRange(const char*) {}
  ~TraceRange() {}  // Not trivial: a range is a use of the variable.
#endif
  TraceRange(const TraceRange&) = delete;
  TraceRange& operator=(const TraceRange&) = delete;

#ifdef TENON_HAS_NVTX
 private:
  // Never destroyed: the last threads of the process may still use it.
  static nvtxDomainHandle_t Domain() {
    static const nvtxDomainHandle_t domain = nvtxDomainCreateA("tenon");
    return domain;
  }
#endif
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_TRACE_RANGE_H_
