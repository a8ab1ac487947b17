// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Events, of one process or of several.

#ifndef TENON_CUDA_IPC_FAKE_EVENTS_H_
#define TENON_CUDA_IPC_FAKE_EVENTS_H_

#include <string>
#include <vector>

namespace tenon::cuda_ipc::fake {

// With TableLock().
void AddEventLeaks(std::vector<std::string>& leaks);
void ResetEvents();

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_EVENTS_H_
