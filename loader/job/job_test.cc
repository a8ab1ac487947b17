// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/job/job.h"

#include <unistd.h>

#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/job/rank.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// An environment written as the lines of env(1).
class Recorded {
 public:
  explicit Recorded(absl::string_view lines) {
    for (const absl::string_view line :
         absl::StrSplit(lines, '\n', absl::SkipWhitespace())) {
      std::pair<std::string, std::string> variable =
          absl::StrSplit(line, absl::MaxSplits('=', 1));
      variables_[variable.first] = variable.second;
    }
  }

  const char* operator()(const char* name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? nullptr : found->second.c_str();
  }

 private:
  std::map<std::string, std::string> variables_;
};

absl::StatusOr<Rank> Find(absl::string_view lines,
                          const JobOptions& options = {}) {
  const Recorded environment(lines);
  return FindRank(options, environment);
}

// Recorded: `srun -n 2 --overcommit env`, Slurm 22.05.
constexpr char kSrun[] = R"(
SLURMD_NODENAME=node1
SLURM_CLUSTER_NAME=c
SLURM_GTIDS=0,1
SLURM_JOB_ID=1
SLURM_JOB_NODELIST=node1
SLURM_LAUNCH_NODE_IPADDR=127.0.0.1
SLURM_LOCALID=1
SLURM_NNODES=1
SLURM_NODEID=0
SLURM_NPROCS=2
SLURM_NTASKS=2
SLURM_PROCID=1
SLURM_STEPID=0
SLURM_STEP_ID=0
SLURM_STEP_NUM_NODES=1
SLURM_STEP_NUM_TASKS=2
SLURM_TASKS_PER_NODE=2
)";

// Recorded: env in a script of `sbatch -n 2`, which runs once.
constexpr char kSbatch[] = R"(
HOSTNAME=node1
SLURMD_NODENAME=node1
SLURM_JOB_ID=2
SLURM_LOCALID=0
SLURM_NNODES=1
SLURM_NODEID=0
SLURM_NPROCS=2
SLURM_NTASKS=2
SLURM_PROCID=0
)";

// Recorded: `mpirun -n 2 env`, Open MPI 4.1.4.
constexpr char kMpirun[] = R"(
OMPI_APP_CTX_NUM_PROCS=2
OMPI_COMMAND=env
OMPI_COMM_WORLD_LOCAL_RANK=1
OMPI_COMM_WORLD_LOCAL_SIZE=2
OMPI_COMM_WORLD_NODE_RANK=1
OMPI_COMM_WORLD_RANK=1
OMPI_COMM_WORLD_SIZE=2
OMPI_MCA_orte_num_nodes=1
OMPI_UNIVERSE_SIZE=2
PMIX_HOSTNAME=node2
PMIX_ID=646578177.1
PMIX_NAMESPACE=646578177
PMIX_RANK=1
PMIX_VERSION=4.2.2rc2
)";

// Those of kMpirun that the PMIx library sets for any launcher.
constexpr char kPmix[] = R"(
PMIX_HOSTNAME=node2
PMIX_ID=646578177.1
PMIX_NAMESPACE=646578177
PMIX_RANK=1
PMIX_VERSION=4.2.2rc2
)";

// Recorded: `mpiexec.hydra -n 2 env`, MPICH 4.0.2.
constexpr char kMpich[] = R"(
HYDI_CONTROL_FD=7
MPIR_CVAR_CH3_INTERFACE_HOSTNAME=node3
MPI_LOCALNRANKS=2
MPI_LOCALRANKID=1
PMI_FD=8
PMI_RANK=1
PMI_SIZE=2
)";

// What torch's local_elastic_agent.py sets, with 2 agents of 4 workers each.
constexpr char kTorchrun[] = R"(
GROUP_RANK=1
GROUP_WORLD_SIZE=2
LOCAL_RANK=2
LOCAL_WORLD_SIZE=4
MASTER_ADDR=node1
MASTER_PORT=29500
RANK=6
ROLE_NAME=default
ROLE_RANK=6
ROLE_WORLD_SIZE=8
TORCHELASTIC_MAX_RESTARTS=0
TORCHELASTIC_RESTART_COUNT=0
TORCHELASTIC_RUN_ID=none
TORCHELASTIC_USE_AGENT_STORE=True
WORLD_SIZE=8
)";

// A pod of an Indexed Job, by the Kubernetes documentation.
constexpr char kKubernetes[] = R"(
HOSTNAME=train-2
JOB_COMPLETION_INDEX=2
KUBERNETES_PORT=tcp://10.96.0.1:443
KUBERNETES_SERVICE_HOST=10.96.0.1
KUBERNETES_SERVICE_PORT=443
)";

std::string Host() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

MATCHER_P3(IsRank, rank, world_size, local_rank, "") {
  return arg.rank == rank && arg.world_size == world_size &&
         arg.local_rank == std::optional<int>(local_rank);
}

TEST(RankTest, FormatsItself) {
  EXPECT_EQ((Rank{.rank = 3, .world_size = 4, .node = "node1"}).ToString(),
            "rank 3 on node1");
  EXPECT_EQ(Rank{}.ToString(), "rank 0");
  std::ostringstream stream;
  stream << Rank{.rank = 7, .world_size = 8, .node = "n"};
  EXPECT_EQ(stream.str(), "rank 7 on n");
}

TEST(RankTest, IsChecked) {
  EXPECT_THAT(CheckRank("F()", {}), IsOk());
  EXPECT_THAT(
      CheckRank("F()", {.rank = 3, .world_size = 3}),
      StatusIs(StatusCode::kInvalidArgument,
               "F(): the rank is 3; in a world of 3 it must be 0 to 2"));
  EXPECT_THAT(CheckRank("F()", {.rank = -1, .world_size = 3}),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rank is -1")));
  EXPECT_THAT(CheckRank("F()", {.rank = 0, .world_size = 0}),
              StatusIs(StatusCode::kInvalidArgument,
                       "F(): the world size is 0; it must be at least 1"));
  EXPECT_THAT(CheckRank("F()", {.local_rank = -2}),
              StatusIs(StatusCode::kInvalidArgument,
                       "F(): the local rank is -2; it must be at least 0"));
}

TEST(JobTest, WithoutALauncherIsTheOnlyProcess) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find(""));
  EXPECT_EQ(rank.rank, 0);
  EXPECT_EQ(rank.world_size, 1);
  EXPECT_EQ(rank.local_rank, std::nullopt);
  EXPECT_EQ(rank.node, Host());
}

TEST(JobTest, Slurm) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find(kSrun));
  EXPECT_THAT(rank, IsRank(1, 2, 1));
  EXPECT_EQ(rank.ToString(), "rank 1 on node1");
}

// The script runs once, whatever --ntasks is.
TEST(JobTest, ABatchScriptOfSlurmIsOneProcess) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find(kSbatch));
  EXPECT_EQ(rank.world_size, 1);
}

TEST(JobTest, OpenMpi) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find(kMpirun));
  EXPECT_THAT(rank, IsRank(1, 2, 1));
  EXPECT_EQ(rank.node, "node2");
}

TEST(JobTest, Mpich) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find(kMpich));
  EXPECT_THAT(rank, IsRank(1, 2, 1));
  EXPECT_EQ(rank.node, Host());
}

TEST(JobTest, Torchrun) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find(kTorchrun));
  EXPECT_THAT(rank, IsRank(6, 8, 2));
}

TEST(JobTest, PmixAloneNamesNoWorldSize) {
  EXPECT_THAT(Find(kPmix), StatusIs(StatusCode::kFailedPrecondition,
                                    "FindRank(): PMIx: PMIX_RANK=1: no "
                                    "variable names the world size; set "
                                    "JobOptions::world_size"));
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find(kPmix, {.world_size = 2}));
  EXPECT_EQ(rank.world_size, 2);
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.node, "node2");
}

// srun --mpi=pmix.
TEST(JobTest, PmixUnderSlurmGetsTheRestFromIt) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find(absl::StrCat(kPmix, kSrun)));
  EXPECT_THAT(rank, IsRank(1, 2, 1));
}

TEST(JobTest, Kubernetes) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank,
                             Find(absl::StrCat(kKubernetes, "WORLD_SIZE=4")));
  EXPECT_THAT(rank, IsRank(2, 4, 0));
  TENON_ASSERT_OK_AND_ASSIGN(const Rank by_option,
                             Find(kKubernetes, {.world_size = 3}));
  EXPECT_THAT(by_option, IsRank(2, 3, 0));
}

TEST(JobTest, KubernetesWithoutAWorldSizeShowsTheManifest) {
  EXPECT_THAT(
      Find(kKubernetes),
      StatusIs(
          StatusCode::kFailedPrecondition,
          "FindRank(): Kubernetes: JOB_COMPLETION_INDEX=2: no variable names "
          "the world size; set JobOptions::world_size, or add to the container "
          "in the Job's manifest:\n"
          "  env:\n"
          "  - name: WORLD_SIZE\n"
          "    value: \"8\"  # as .spec.completions"));
}

// An operator that sets RANK itself, as Kubeflow's does.
TEST(JobTest, RankAndWorldSizeWithoutTorchrun) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, Find("RANK=1\nWORLD_SIZE=2"));
  EXPECT_EQ(rank.rank, 1);
  EXPECT_EQ(rank.world_size, 2);
  EXPECT_EQ(rank.local_rank, std::nullopt);
}

TEST(JobTest, LaunchersThatDisagreeAreBothPrinted) {
  EXPECT_THAT(
      Find(absl::StrCat(kSrun, "RANK=0\nWORLD_SIZE=4")),
      StatusIs(StatusCode::kFailedPrecondition,
               "FindRank(): two launchers disagree: torchrun: RANK=0, "
               "WORLD_SIZE=4; Slurm: SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=2. "
               "Set JobOptions::launcher, or rank and world_size"));
  // The same rank of another world.
  EXPECT_THAT(Find(absl::StrCat(kMpirun, "RANK=1\nWORLD_SIZE=4")),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("RANK=1, WORLD_SIZE=4"),
                             HasSubstr("OMPI_COMM_WORLD_SIZE=2"))));
  // torchrun forgot --nnodes: each task would have an epoch of its own.
  EXPECT_THAT(
      Find(absl::StrCat(kSrun, "RANK=0\nWORLD_SIZE=1\nGROUP_WORLD_SIZE=1")),
      StatusIs(StatusCode::kFailedPrecondition, HasSubstr("disagree")));
}

TEST(JobTest, LaunchersThatAgreeAreOne) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank,
                             Find(absl::StrCat(kSrun, kMpirun)));
  EXPECT_THAT(rank, IsRank(1, 2, 1));
}

// Recorded: mpirun in a script of sbatch, and mpirun in `srun -n 1 --pty bash`.
TEST(JobTest, MpirunInAnAllocationOfSlurm) {
  TENON_ASSERT_OK_AND_ASSIGN(const Rank script,
                             Find(absl::StrCat(kSbatch, kMpirun)));
  EXPECT_THAT(script, IsRank(1, 2, 1));
  TENON_ASSERT_OK_AND_ASSIGN(
      const Rank shell,
      Find(absl::StrCat(kMpirun,
                        "SLURMD_NODENAME=node1\nSLURM_STEP_ID=0\n"
                        "SLURM_PROCID=0\nSLURM_STEP_NUM_TASKS=1")));
  EXPECT_THAT(shell, IsRank(1, 2, 1));
}

// srun starts torchrun's agents, one on each node; so do pods.
TEST(JobTest, TorchrunStartedByAnotherLauncher) {
  for (const absl::string_view outer : {kSrun, "JOB_COMPLETION_INDEX=0"}) {
    TENON_ASSERT_OK_AND_ASSIGN(const Rank rank,
                               Find(absl::StrCat(kTorchrun, outer)));
    EXPECT_THAT(rank, IsRank(6, 8, 2));
  }
  // Not one that has more processes than torchrun has agents.
  EXPECT_THAT(Find(absl::StrCat(kTorchrun, "JOB_COMPLETION_INDEX=2")),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("Kubernetes: JOB_COMPLETION_INDEX=2")));
}

TEST(JobTest, ExplicitOptionsWin) {
  // Over launchers that disagree, and over variables that are not numbers.
  for (const absl::string_view other :
       {"SLURM_STEP_ID=0\nSLURM_PROCID=9\nSLURM_STEP_NUM_TASKS=10",
        "PMI_RANK=x"}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Rank rank,
        Find(absl::StrCat(kMpirun, other),
             {.rank = 4, .world_size = 5, .local_rank = 3, .node = "mine"}));
    EXPECT_THAT(rank, IsRank(4, 5, 3));
    EXPECT_EQ(rank.node, "mine");
  }
  TENON_ASSERT_OK_AND_ASSIGN(const Rank one, Find(kMpirun, {.rank = 0}));
  EXPECT_THAT(one, IsRank(0, 2, 1));
  EXPECT_THAT(Find(kMpirun, {.rank = 2}),
              StatusIs(StatusCode::kInvalidArgument,
                       "FindRank(): the rank is 2; in a world of 2 it must be "
                       "0 to 1"));
}

TEST(JobTest, OneLauncherByOption) {
  const std::string both =
      absl::StrCat(kMpirun,
                   "SLURM_STEP_ID=0\nSLURM_PROCID=5\n"
                   "SLURM_STEP_NUM_TASKS=6\nSLURM_LOCALID=4");
  EXPECT_THAT(Find(both), Not(IsOk()));
  TENON_ASSERT_OK_AND_ASSIGN(const Rank slurm,
                             Find(both, {.launcher = Launcher::kSlurm}));
  EXPECT_THAT(slurm, IsRank(5, 6, 4));
  TENON_ASSERT_OK_AND_ASSIGN(const Rank mpi,
                             Find(both, {.launcher = Launcher::kOpenMpi}));
  EXPECT_THAT(mpi, IsRank(1, 2, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const Rank none,
                             Find(both, {.launcher = Launcher::kNone}));
  EXPECT_EQ(none.world_size, 1);
  EXPECT_THAT(Find(kSbatch, {.launcher = Launcher::kSlurm}),
              StatusIs(StatusCode::kFailedPrecondition,
                       "FindRank(): Slurm has not started this process: "
                       "SLURM_PROCID and SLURM_STEP_ID must be set; set "
                       "JobOptions::rank and JobOptions::world_size"));
}

TEST(JobTest, WhatIsNoNumberIsNamed) {
  EXPECT_THAT(Find("RANK=two\nWORLD_SIZE=4"),
              StatusIs(StatusCode::kInvalidArgument,
                       "FindRank(): RANK='two' is not a number from 0 to "
                       "2147483647"));
  for (const absl::string_view bad : {"", "-1", "4294967296", "1.5", "1 2"}) {
    EXPECT_THAT(Find(absl::StrCat("RANK=1\nWORLD_SIZE=", bad)),
                StatusIs(StatusCode::kInvalidArgument, HasSubstr("WORLD_SIZE")))
        << bad;
  }
  EXPECT_THAT(Find("RANK=4\nWORLD_SIZE=4"),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("rank is 4")));
}

TEST(JobTest, EveryLauncherHasAName) {
  for (int i = 0; i <= static_cast<int>(Launcher::kKubernetes); ++i) {
    EXPECT_NE(LauncherName(static_cast<Launcher>(i)), "unknown");
  }
}

}  // namespace
}  // namespace tenon::loader
