// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Calls of each entry are counted, and the n-th one fails if it shall.

#ifndef TENON_CUDA_IPC_FAKE_FAULTS_H_
#define TENON_CUDA_IPC_FAKE_FAULTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tenon/cuda_ipc/fake/exports.h"

namespace tenon::cuda_ipc::fake {

// Counts a call; returns the fault that is due, else CUDA_SUCCESS.
CUresult CountCall(Entry entry);

// Of an entry, or of all if `name` is empty. Ends the process if there is no
// such entry.
uint64_t CallsOf(const std::string& name);

// From now on the n-th call of the entry fails, before it does anything; every
// call if nth is 0.
void SetFault(const std::string& name, uint64_t nth, int error);

// Sets all counts to zero, and the faults of the settings.
void ResetFaults();

// The errors that cuda.h documents for this entry.
std::vector<int> DocumentedErrors(const std::string& name);

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_FAULTS_H_
