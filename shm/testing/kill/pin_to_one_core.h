// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// PinToOneCore: keeps a tracer and what it traces on one core.

#ifndef TENON_SHM_TESTING_KILL_PIN_TO_ONE_CORE_H_
#define TENON_SHM_TESTING_KILL_PIN_TO_ONE_CORE_H_

#include <memory>

namespace tenon {

// Pins the calling thread, and what it forks, to the core that it runs on: a
// stop costs 20 us so, and several times that between cores. Restored when
// destroyed. Where it is not permitted nothing happens.
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
