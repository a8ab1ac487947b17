// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/job/job.h"

#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/job/rank.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

constexpr char kCall[] = "FindRank(): ";

// The variables of a launcher; nullptr where it has none.
struct Variables {
  Launcher launcher;
  // It has started this process if these are set.
  const char* rank;
  const char* marker;
  const char* world_size;
  const char* local_rank;
  const char* node;
};

// From the innermost outwards.
constexpr Variables kLaunchers[] = {
    {Launcher::kTorchrun, "RANK", nullptr, "WORLD_SIZE", "LOCAL_RANK", nullptr},
    {Launcher::kOpenMpi, "OMPI_COMM_WORLD_RANK", nullptr,
     "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "PMIX_HOSTNAME"},
    {Launcher::kPmix, "PMIX_RANK", nullptr, nullptr, nullptr, "PMIX_HOSTNAME"},
    {Launcher::kMpich, "PMI_RANK", nullptr, "PMI_SIZE", "MPI_LOCALRANKID",
     nullptr},
    {Launcher::kSlurm, "SLURM_PROCID", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS",
     "SLURM_LOCALID", "SLURMD_NODENAME"},
    {Launcher::kKubernetes, "JOB_COMPLETION_INDEX", nullptr, "WORLD_SIZE",
     nullptr, nullptr},
};

// What a launcher says of this process.
struct Claim {
  const Variables* variables;
  int rank = 0;
  std::optional<int> world_size;
  std::optional<int> local_rank;
  std::string node;

  // "Slurm: SLURM_PROCID=1, SLURM_STEP_NUM_TASKS=4"
  std::string ToString() const {
    std::string text = absl::StrCat(LauncherName(variables->launcher), ": ",
                                    variables->rank, "=", rank);
    if (world_size.has_value()) {
      absl::StrAppend(&text, ", ", variables->world_size, "=", *world_size);
    }
    return text;
  }
};

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

// The number in variable `name`; nothing if there is none.
absl::StatusOr<std::optional<int>> ReadNumber(EnvironmentRef environment,
                                              const char* name) {
  const char* const text = name == nullptr ? nullptr : environment(name);
  if (text == nullptr) return std::nullopt;
  int number = 0;
  if (!absl::SimpleAtoi(text, &number) || number < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(kCall, name, "='", text, "' is not a number from 0 to ",
                     std::numeric_limits<int>::max()));
  }
  return number;
}

// Nothing if the launcher has not started this process.
absl::StatusOr<std::optional<Claim>> ReadClaim(const Variables& variables,
                                               EnvironmentRef environment) {
  if (variables.marker != nullptr && environment(variables.marker) == nullptr) {
    return std::nullopt;
  }
  TENON_ASSIGN_OR_RETURN(const std::optional<int> rank,
                         ReadNumber(environment, variables.rank));
  if (!rank.has_value()) return std::nullopt;
  Claim claim = {.variables = &variables, .rank = *rank};
  // In Kubernetes a WORLD_SIZE beside a RANK counts those ranks, not the pods.
  const bool kubernetes = variables.launcher == Launcher::kKubernetes;
  if (!kubernetes || environment("RANK") == nullptr) {
    TENON_ASSIGN_OR_RETURN(claim.world_size,
                           ReadNumber(environment, variables.world_size));
  }
  TENON_ASSIGN_OR_RETURN(claim.local_rank,
                         ReadNumber(environment, variables.local_rank));
  if (kubernetes) claim.local_rank = 0;  // A pod has devices of its own.
  if (variables.node != nullptr) {
    if (const char* node = environment(variables.node)) claim.node = node;
  }
  return claim;
}

// All launchers that have started this process, from the innermost outwards.
absl::StatusOr<std::vector<Claim>> ReadClaims(std::optional<Launcher> only,
                                              EnvironmentRef environment) {
  std::vector<Claim> claims;
  for (const Variables& variables : kLaunchers) {
    if (only.has_value() && variables.launcher != *only) continue;
    TENON_ASSIGN_OR_RETURN(std::optional<Claim> claim,
                           ReadClaim(variables, environment));
    if (claim.has_value()) {
      claims.push_back(*std::move(claim));
    } else if (only.has_value()) {
      std::string missing = variables.rank;
      if (variables.marker != nullptr) {
        absl::StrAppend(&missing, " and ", variables.marker);
      }
      return absl::FailedPreconditionError(absl::StrCat(
          kCall, LauncherName(variables.launcher),
          " has not started this process: ", missing,
          " must be set; set JobOptions::rank and JobOptions::world_size"));
    }
  }
  return claims;
}

bool IsSameProcess(const Claim& inner, const Claim& outer) {
  return inner.rank == outer.rank &&
         (!inner.world_size.has_value() || !outer.world_size.has_value() ||
          *inner.world_size == *outer.world_size);
}

// Whether `outer` started what `inner` was started by.
absl::StatusOr<bool> IsLauncherOf(const Claim& outer, const Claim& inner,
                                  EnvironmentRef environment) {
  if (outer.world_size == 1) return true;
  if (inner.variables->launcher != Launcher::kTorchrun) return false;
  TENON_ASSIGN_OR_RETURN(const std::optional<int> agents,
                         ReadNumber(environment, "GROUP_WORLD_SIZE"));
  return agents.has_value() && outer.rank < *agents &&
         outer.world_size.value_or(*agents) == *agents;
}

// Takes what the innermost launcher does not say from outer ones that mean the
// same process.
absl::StatusOr<Claim> Combine(std::vector<Claim> claims,
                              EnvironmentRef environment) {
  Claim combined = claims[0];
  for (size_t i = 1; i < claims.size(); ++i) {
    const Claim& outer = claims[i];
    if (IsSameProcess(claims[0], outer)) {
      if (!combined.world_size.has_value()) {
        combined.world_size = outer.world_size;
      }
      if (!combined.local_rank.has_value()) {
        combined.local_rank = outer.local_rank;
      }
      if (combined.node.empty()) combined.node = outer.node;
      continue;
    }
    TENON_ASSIGN_OR_RETURN(const bool launcher,
                           IsLauncherOf(outer, claims[0], environment));
    if (!launcher) {
      return absl::FailedPreconditionError(
          absl::StrCat(kCall, "two launchers disagree: ", claims[0].ToString(),
                       "; ", outer.ToString(),
                       ". Set JobOptions::launcher, or rank and world_size"));
    }
    if (combined.node.empty()) combined.node = outer.node;
  }
  return combined;
}

absl::Status NoWorldSize(const Claim& claim) {
  std::string message = absl::StrCat(kCall, claim.ToString(),
                                     ": no variable names the world size; set ",
                                     "JobOptions::world_size");
  if (claim.variables->launcher == Launcher::kKubernetes) {
    absl::StrAppend(&message,
                    ", or add to the container in the Job's manifest:\n"
                    "  env:\n"
                    "  - name: WORLD_SIZE\n"
                    "    value: \"8\"  # as .spec.completions");
  }
  return absl::FailedPreconditionError(message);
}

// What the launchers say, if any; options are not applied yet.
absl::StatusOr<Rank> AskLaunchers(const JobOptions& options,
                                  EnvironmentRef environment) {
  if (options.launcher == Launcher::kNone) return Rank{};
  TENON_ASSIGN_OR_RETURN(std::vector<Claim> claims,
                         ReadClaims(options.launcher, environment));
  if (claims.empty()) return Rank{};
  TENON_ASSIGN_OR_RETURN(const Claim claim,
                         Combine(std::move(claims), environment));
  if (!claim.world_size.has_value() && !options.world_size.has_value()) {
    return NoWorldSize(claim);
  }
  return Rank{.rank = claim.rank,
              .world_size = claim.world_size.value_or(0),
              .local_rank = claim.local_rank,
              .node = claim.node};
}

}  // namespace

absl::string_view LauncherName(Launcher launcher) {
  switch (launcher) {
    case Launcher::kNone:
      return "none";
    case Launcher::kTorchrun:
      return "torchrun";
    case Launcher::kOpenMpi:
      return "Open MPI";
    case Launcher::kPmix:
      return "PMIx";
    case Launcher::kMpich:
      return "MPICH";
    case Launcher::kSlurm:
      return "Slurm";
    case Launcher::kKubernetes:
      return "Kubernetes";
  }
  return "unknown";
}

absl::StatusOr<Rank> FindRank(const JobOptions& options,
                              EnvironmentRef environment) {
  Rank rank;
  if (!options.rank.has_value() || !options.world_size.has_value()) {
    TENON_ASSIGN_OR_RETURN(rank, AskLaunchers(options, environment));
  }
  rank.rank = options.rank.value_or(rank.rank);
  rank.world_size = options.world_size.value_or(rank.world_size);
  if (options.local_rank.has_value()) rank.local_rank = options.local_rank;
  rank.node = options.node.value_or(rank.node);
  if (rank.node.empty()) rank.node = HostName();
  TENON_RETURN_IF_ERROR(CheckRank("FindRank()", rank));
  return rank;
}

absl::StatusOr<Rank> FindRank(const JobOptions& options) {
  return FindRank(options, [](const char* name) { return getenv(name); });
}

}  // namespace tenon::loader
