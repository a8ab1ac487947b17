// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArgumentTraits of shared memory: Segment, Tensor, Value, Array.
//
// Sender and receiver then have the same memory, but for tensors in private
// memory, which are copied. What has a name (the strategy
// kFileSystem) travels by it, and has to have it still when it arrives; all
// else travels as a descriptor, or is held for as long as it is under way, and
// the sender may drop it at once.

#ifndef TENON_SPAWN_ARGUMENTS_SHM_ARGUMENTS_H_
#define TENON_SPAWN_ARGUMENTS_SHM_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/value/array.h"
#include "tenon/shm/value/value.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {

// Of either kind. Its mapping stays behind.
template <>
struct ArgumentTraits<Segment> {
  static std::string Name() { return "tenon::Segment"; }
  static absl::Status Pack(const Segment& segment, ArgumentWriter& to);
  static absl::StatusOr<Segment> Unpack(ArgumentReader& from);
};

// With its shape. Tensors of one storage are that at the other end, too, if
// they travel in one call.
//
// A shared one (Tensor::Share()) is the same memory there. One in private
// memory is copied into a block of ArgumentArena() (argument_arena.h): the
// bytes from the first to the last that the arguments have of it. The receivers
// of the copy can read it; it is the tensor as it was when the call was made.
//
// A block is not copied. It is held by the sender until each receiver has
// claimed it or is dead (the arguments of Start()), until the task has ended
// (those of a pool), until the pool has it (results); then by whoever has the
// tensor. If who sends it does not own the arena, and is killed before it was
// claimed, the receiver's call may fail with kDataLoss.
// Errors: as Export() of tensor_handle.h and Describe() of arena_tensor.h:
// kFailedPrecondition for a shared one inherited by fork(); kResourceExhausted
// if there is no memory for a copy.
template <>
struct ArgumentTraits<Tensor> {
  static std::string Name() { return "tenon::Tensor"; }
  static absl::Status Pack(const Tensor& tensor, ArgumentWriter& to);
  static absl::StatusOr<Tensor> Unpack(ArgumentReader& from);
};

template <typename T>
struct ArgumentTraits<Value<T>> : NamedOrFdTraits<Value<T>> {};
template <typename T>
struct ArgumentTraits<Array<T>> : NamedOrFdTraits<Array<T>> {};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_SHM_ARGUMENTS_H_
