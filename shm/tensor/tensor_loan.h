// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Loans: how a tensor travels whose memory is on a device and in no pool, such
// as one that another library lends (DLPack). The loan is a small tensor of the
// CPU, in a block of an arena. It stands for the memory: a process that holds
// the loan holds the memory.
//
// Queues, messages and arguments of processes lend and borrow by themselves.
// For rings and channels, which carry handles:
//
//   TENON_ASSIGN_OR_RETURN(Tensor loan, LoanOf(tensor));
//   // Send Describe(loan), tensor.spec(), and once Offer(loan). The receiver
//   // claims the loan as any tensor of an arena, and then:
//   TENON_ASSIGN_OR_RETURN(Tensor same, FromLoan(loan, kDLCUDA, slot->spec));
//
// The driver decides the effects of a lender's exit and of an early free; see
// cuda_ipc/README.md.

#ifndef TENON_SHM_TENSOR_TENSOR_LOAN_H_
#define TENON_SHM_TENSOR_TENSOR_LOAN_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

// The loan of a tensor's memory: the same for all views of it, and for a
// borrowed tensor the loan that it was borrowed by, so that it can be passed
// on. Keep `tensor` until the receiver has claimed the loan. Thread-safe; may
// call the device's driver.
// Errors: kFailedPrecondition if the tensor is on the CPU, shared, or in memory
// that has no loan, which says what to do instead; DeviceMemory::Lend()'s.
absl::StatusOr<Tensor> LoanOf(const Tensor& tensor);

// The tensor of a loan that this process holds, on a device of that type
// (DLDeviceType), with that spec. The loan is held as long as the result, and
// its views, are. Tensors of one loan share one storage. Thread-safe; may call
// the device's driver.
// Trust: all of it may be anything.
// Errors: DeviceMemoryOf()'s, such as kFailedPrecondition naming the target to
// link; DeviceMemory::Borrow()'s; kInvalidArgument if the spec does not fit the
// memory.
absl::StatusOr<Tensor> FromLoan(const Tensor& loan, int32_t type,
                                const TensorSpec& spec);

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_TENSOR_LOAN_H_
