// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Attaches a process to the daemon of names for its whole life, and its
// children as well: with one call, names of the file_system strategy are
// removed when their last holder dies, and a message that names memory outlives
// its sender.
//
//   absl::Status status =
//       AttachProcess({.program = "/opt/tenon/bin/tenon_shm_manager"},
//                     Deadline::After(absl::Seconds(5)));
//
// Queues of tensors and the arguments and results of spawned children then have
// the daemon keep the names that they send (shm/segment/name_keeper.h).

#ifndef TENON_SHM_MANAGER_ATTACH_PROCESS_H_
#define TENON_SHM_MANAGER_ATTACH_PROCESS_H_

#include <sys/types.h>

#include <cstdint>

#include "absl/status/status.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm_manager/manager_client.h"

namespace tenon {

// Attaches now, and again whenever the daemon has ended, before a named segment
// is created or opened, or a name is sent. Forked children attach themselves
// before their first named segment, and so do children of //spawn, a loader's
// workers among them, that link this library. Processes started otherwise call
// it themselves. A second call replaces the options.
// Thread-safe. Errors: those of ManagerClient::Attach(); then nothing changes.
absl::Status AttachProcess(const ManagerClientOptions& options,
                           Deadline deadline);

// Detaches this process; names are handled as before AttachProcess().
void DetachProcess();

struct ProcessAttachment {
  // OK while attached; otherwise why not: kFailedPrecondition if it was not
  // asked for, in this process or by its parent; kUnavailable before the first
  // named segment, and once the daemon has ended; Attach()'s.
  absl::Status status;
  pid_t daemon = 0;  // While attached, if it can be seen from here.
  // Names that were sent without being kept, because the daemon did not answer
  // within a second or was over a quota: these messages depend on their sender.
  uint64_t unkept_names = 0;
};

// Without the daemon all calls work as if this library were not used. A daemon
// that does not answer costs its clients at most 5% of their time: after an
// attempt, there is none for 20 times as long, and for at least a second.
// Thread-safe.
ProcessAttachment GetProcessAttachment();

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_ATTACH_PROCESS_H_
