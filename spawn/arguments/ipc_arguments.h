// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArgumentTraits of //ipc: Channel, Mutex, Semaphore, BoundedSemaphore, Event,
// Condition, Barrier.
//
// A channel is moved, to one process: std::move() it. The others are shared,
// like shared memory (shm_arguments.h).

#ifndef TENON_SPAWN_ARGUMENTS_IPC_ARGUMENTS_H_
#define TENON_SPAWN_ARGUMENTS_IPC_ARGUMENTS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/spawn/arguments/argument.h"

// A file that sends one of them includes its header.
namespace tenon {
class Barrier;
class BoundedSemaphore;
class Channel;
class Condition;
class Event;
class Mutex;
class Semaphore;
}  // namespace tenon

namespace tenon::spawn {

// With the default ChannelOptions; for others, send channel.Release() and
// Adopt() it.
template <>
struct ArgumentTraits<Channel> {
  static constexpr bool kGivenAway = true;
  static std::string Name() { return "tenon::Channel"; }
  static absl::Status Pack(const Channel& channel, ArgumentWriter& to);
  static absl::StatusOr<Channel> Unpack(ArgumentReader& from);
};

template <>
struct ArgumentTraits<Mutex> : NamedOrFdTraits<Mutex> {};
template <>
struct ArgumentTraits<Semaphore> : NamedOrFdTraits<Semaphore> {};
template <>
struct ArgumentTraits<BoundedSemaphore> : NamedOrFdTraits<BoundedSemaphore> {};
template <>
struct ArgumentTraits<Event> : NamedOrFdTraits<Event> {};
template <>
struct ArgumentTraits<Condition> : NamedOrFdTraits<Condition> {};
template <>
struct ArgumentTraits<Barrier> : NamedOrFdTraits<Barrier> {};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_IPC_ARGUMENTS_H_
