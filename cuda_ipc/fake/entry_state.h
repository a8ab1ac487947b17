// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Whether this process has called cuInit.

#ifndef TENON_CUDA_IPC_FAKE_ENTRY_STATE_H_
#define TENON_CUDA_IPC_FAKE_ENTRY_STATE_H_

namespace tenon::cuda_ipc::fake {

// False in a process forked from one that had.
bool SetInitialized();
void ResetInitialized();

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_ENTRY_STATE_H_
