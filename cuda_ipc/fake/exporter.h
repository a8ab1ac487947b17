// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The 64 bytes of a legacy handle: the process that made it and its descriptor,
// which is opened through /proc. With the process they are void; nothing is
// left behind.

#ifndef TENON_CUDA_IPC_FAKE_EXPORTER_H_
#define TENON_CUDA_IPC_FAKE_EXPORTER_H_

#include <memory>

#include "tenon/cuda_ipc/fake/memory.h"

namespace tenon::cuda_ipc::fake {

// Writes the 64 bytes of a handle to this process's memory.
void WriteHandle(const Memory& memory, char* handle);

struct Exported {
  std::shared_ptr<Memory> memory;
  int exporter = -1;  // A pidfd, the caller's to close.
};

// The memory of a handle. Errors: CUDA_ERROR_INVALID_CONTEXT for a handle of
// this process; CUDA_ERROR_INVALID_HANDLE if the exporter has ended or freed
// it, or if it is no handle of this kind.
CUresult OpenHandle(MemoryKind kind, const char* handle, Exported& exported);

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_EXPORTER_H_
