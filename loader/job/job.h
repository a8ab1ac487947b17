// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FindRank(): which process of a job this one is, by the launcher that started
// it.
//
//   absl::StatusOr<Rank> rank = FindRank();
//   if (!rank.ok()) return Fail(rank.status());
//   std::cerr << *rank << " of " << rank->world_size;  // rank 3 on node1 of 8
//
// Launchers are recognised by their variables, from the innermost outwards:
//
//   launcher     rank                  world size             local rank
//   torchrun     RANK                  WORLD_SIZE             LOCAL_RANK
//   Open MPI     OMPI_COMM_WORLD_RANK  OMPI_COMM_WORLD_SIZE   ..._LOCAL_RANK
//   PMIx         PMIX_RANK             -                      -
//   MPICH        PMI_RANK              PMI_SIZE               MPI_LOCALRANKID
//   Slurm        SLURM_PROCID          SLURM_STEP_NUM_TASKS   SLURM_LOCALID
//   Kubernetes   JOB_COMPLETION_INDEX  WORLD_SIZE             0
//
// Slurm counts where SLURM_STEP_ID is set, so in tasks of srun and not in the
// batch script. The node is SLURMD_NODENAME, PMIX_HOSTNAME, or the host's name.
// Without a launcher, the process is rank 0 of 1.

#ifndef TENON_LOADER_JOB_JOB_H_
#define TENON_LOADER_JOB_JOB_H_

#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/job/rank.h"

namespace tenon::loader {

enum class Launcher {
  kNone,
  kTorchrun,
  kOpenMpi,
  kPmix,
  kMpich,
  kSlurm,
  kKubernetes,
};

// "torchrun", "Open MPI", ...
absl::string_view LauncherName(Launcher launcher);

// Each one that is set wins over the environment.
struct JobOptions {
  std::optional<int> rank;
  std::optional<int> world_size;
  std::optional<int> local_rank;
  std::optional<std::string> node;
  // The only launcher to ask, where several have left variables. kNone: ask
  // none.
  std::optional<Launcher> launcher;
};

// The value of an environment variable; nullptr if it is not set.
using EnvironmentRef = absl::FunctionRef<const char*(const char* name)>;

// With both `rank` and `world_size` no launcher is asked for them.
//
// Two launchers that name different ranks or world sizes are an error, except
// an outer one that plainly started the inner one: an outer world of one
// process (an interactive shell), or as many outer processes as torchrun has
// agents (GROUP_WORLD_SIZE).
//
// Threads: reads the environment; no other thread may change it meanwhile.
// Errors:
//   kInvalidArgument     a variable that is not a number; a rank out of range
//   kFailedPrecondition  launchers that disagree, with what each says; a
//                        launcher that names no world size (in Kubernetes: with
//                        the lines that the manifest lacks); options.launcher
//                        has not started this process
absl::StatusOr<Rank> FindRank(const JobOptions& options = {});

// The same in another environment, such as a recorded one.
absl::StatusOr<Rank> FindRank(const JobOptions& options,
                              EnvironmentRef environment);

}  // namespace tenon::loader

#endif  // TENON_LOADER_JOB_JOB_H_
