// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Handles of cuMemCreate and cuMemImportFromShareableHandle.

#ifndef TENON_CUDA_IPC_FAKE_VIRTUAL_MEMORY_H_
#define TENON_CUDA_IPC_FAKE_VIRTUAL_MEMORY_H_

#include <string>
#include <vector>

namespace tenon::cuda_ipc::fake {

// Handles, mappings and reservations, for the report of leaks. With
// TableLock().
void AddVirtualMemoryLeaks(std::vector<std::string>& leaks);
// Drops them all. With TableLock().
void ResetVirtualMemory();

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_VIRTUAL_MEMORY_H_
