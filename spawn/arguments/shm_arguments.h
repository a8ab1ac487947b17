// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArgumentTraits of shared memory: Segment, Tensor, Value, Array.
//
// Sender and receiver then share the same memory, except for tensors in private
// memory, which are copied. An object with a name (the strategy kFileSystem) is
// sent by its name, and must still have it when the message arrives; all others
// are sent as a descriptor, or are held while in flight, and the sender may
// drop them at once.

#ifndef TENON_SPAWN_ARGUMENTS_SHM_ARGUMENTS_H_
#define TENON_SPAWN_ARGUMENTS_SHM_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/shm/value/shared_memory_safe.h"
#include "tenon/spawn/arguments/argument.h"

// A file that sends one of them includes its header.
namespace tenon {
class Segment;
class Tensor;
template <SharedMemorySafe T>
class Value;
template <SharedMemorySafe T>
class Array;
}  // namespace tenon

namespace tenon::spawn {

// A segment of either strategy. Its mapping is not sent.
template <>
struct ArgumentTraits<Segment> {
  static std::string Name() { return "tenon::Segment"; }
  static absl::Status Pack(const Segment& segment, ArgumentWriter& to);
  static absl::StatusOr<Segment> Unpack(ArgumentReader& from);
};

// A tensor with its shape. Tensors of one storage share one storage in the
// receiver, too, if they are sent in one call.
//
// A shared tensor (Tensor::Share()) is the same memory in the receiver. A
// tensor in private memory is copied into a block of ArgumentArena()
// (argument_arena.h): the bytes from the first to the last that the arguments
// use of its storage. The receivers can only read the copy, which is the tensor
// at the time of the call.
//
// A block is not copied. The sender holds it until each receiver has claimed it
// or is dead (arguments of Start()), until the task has ended (arguments of a
// pool), until the pool has claimed it (results); then the process that has the
// tensor holds it. If the sender does not own the arena and is killed before
// the claim, the receiver's call may fail with kDataLoss.
// Errors: those of Export() of tensor_handle.h and Describe() of
// arena_tensor.h: kFailedPrecondition for a shared tensor inherited by fork();
// kResourceExhausted if memory for a copy is not available.
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
