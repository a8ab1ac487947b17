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
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/sync/barrier.h"
#include "tenon/ipc/sync/condition.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/semaphore.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {

// With the default ChannelOptions; for others, send channel.Release() and
// Adopt() it.
template <>
struct ArgumentTraits<Channel> {
  static constexpr bool kGivenAway = true;
  static std::string Name() { return "tenon::Channel"; }
  static absl::Status Pack(const Channel& channel, ArgumentWriter& to) {
    to.SetExclusive("a Channel");
    return to.PutFd(channel.fd());
  }
  static absl::StatusOr<Channel> Unpack(ArgumentReader& from) {
    absl::StatusOr<UniqueFd> fd = from.TakeFd();
    if (!fd.ok()) return fd.status();
    return Channel::Adopt(*std::move(fd));
  }
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
