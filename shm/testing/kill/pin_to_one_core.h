// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PinToOneCore: keeps a tracer and its tracees on one core.

#ifndef TENON_SHM_TESTING_KILL_PIN_TO_ONE_CORE_H_
#define TENON_SHM_TESTING_KILL_PIN_TO_ONE_CORE_H_

#include <memory>

namespace tenon {

// Pins the calling thread, and its forked children, to the current core: there
// a stop costs 20 us, and several times that between cores. Restored when
// destroyed. No effect where it is not permitted.
class PinToOneCore {
 public:
  PinToOneCore();
  ~PinToOneCore();
  PinToOneCore(const PinToOneCore&) = delete;
  PinToOneCore& operator=(const PinToOneCore&) = delete;

 private:
  struct Cores;
  std::unique_ptr<Cores> before_;
};

}  // namespace tenon

#endif  // TENON_SHM_TESTING_KILL_PIN_TO_ONE_CORE_H_
