// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ManagerStats: counts of a daemon of names.

#ifndef TENON_SHM_MANAGER_MANAGER_STATS_H_
#define TENON_SHM_MANAGER_MANAGER_STATS_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// A value. The daemon's word: of the same user.
struct ManagerStats {
  uint64_t clients = 0;        // Now.
  uint64_t kept_names = 0;     // Now.
  uint64_t attached = 0;       // Clients, in all.
  uint64_t refused = 0;        // Connections: other users, noise, over a quota.
  uint64_t malformed = 0;      // Messages; each ended its connection.
  uint64_t sweeps = 0;         // Times that all names were examined.
  uint64_t failed_sweeps = 0;  // Of these, with an error.
  uint64_t removed_names = 0;
  uint64_t removed_bytes = 0;  // Of memory.

  friend bool operator==(const ManagerStats&, const ManagerStats&) = default;
};

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_MANAGER_STATS_H_
