// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Arguments that delay or kill the process that receives them, before it opens
// the queues behind them.
//
//   absl::Status PutLate(Slow, Queue<int64_t> items);

#ifndef TENON_SPAWN_TESTING_ODD_ARGUMENTS_TESTING_H_
#define TENON_SPAWN_TESTING_ODD_ARGUMENTS_TESTING_H_

#include <signal.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {

// Its receiver needs 300 ms for it.
struct Slow {};

// Its receiver dies of SIGKILL.
struct Deadly {};

template <>
struct ArgumentTraits<Slow> {
  static std::string Name() { return "Slow"; }
  static absl::Status Pack(const Slow&, ArgumentWriter&) {
    return absl::OkStatus();
  }
  static absl::StatusOr<Slow> Unpack(ArgumentReader&) {
    absl::SleepFor(absl::Milliseconds(300));
    return Slow();
  }
};

template <>
struct ArgumentTraits<Deadly> {
  static std::string Name() { return "Deadly"; }
  static absl::Status Pack(const Deadly&, ArgumentWriter&) {
    return absl::OkStatus();
  }
  static absl::StatusOr<Deadly> Unpack(ArgumentReader&) {
    raise(SIGKILL);
    return Deadly();
  }
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_TESTING_ODD_ARGUMENTS_TESTING_H_
