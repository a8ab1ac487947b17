// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// NameKeeper: a service that holds names in flight for the processes that send
// them, such as the daemon of //shm_manager. It is above this package, so it
// is installed here, and segments and messages use it through this interface.
// Without one, named segments work as well: a name in flight is then held by
// its sender alone.
//
//   if (NameKeeper* const keeper = GetNameKeeper()) {
//     is_kept = keeper->KeepName(segment.name()).ok();
//   }
//   // The message tells its receiver, which calls ReleaseName() once it has
//   // opened the name.

#ifndef TENON_SHM_SEGMENT_NAME_KEEPER_H_
#define TENON_SHM_SEGMENT_NAME_KEEPER_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Threads: thread-safe.
// Processes: works in forked children, too.
// Failure: a keeper that cannot be reached is an error of KeepName() after a
//   bounded time, and then at once for a while: the caller goes on without it.
class NameKeeper {
 public:
  // Called before this process creates or opens a named segment. Seldom makes a
  // system call.
  virtual void Attend() = 0;

  // Makes the keeper a holder of a random name (IsMadeShmName()), so that it
  // outlives this process. Each call counts.
  virtual absl::Status KeepName(absl::string_view name) = 0;

  // Undoes one KeepName() of any process. The last one removes the name if it
  // has no other holder.
  virtual void ReleaseName(absl::string_view name) = 0;

 protected:
  ~NameKeeper() = default;
};

// That of this process, and of the children that it forks; null if there is
// none. Thread-safe.
NameKeeper* GetNameKeeper();

// Installs one, or none. Not owned: it must live until the process ends.
// Thread-safe.
void SetNameKeeper(NameKeeper* keeper);

}  // namespace tenon

#endif  // TENON_SHM_SEGMENT_NAME_KEEPER_H_
