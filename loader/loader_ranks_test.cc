// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Loaders in the processes of real jobs: of two ranks, started by a launcher,
// the batches together are those of one process, bit for bit.

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/job/job.h"
#include "tenon/loader/job/rank.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/sampling/distributed_sampler.h"
#include "tenon/loader/sampling/random_sampler.h"
#include "tenon/loader/sampling/sampler.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::testing::SizeIs;

// Set in the ranks: where they write.
constexpr char kFolder[] = "TENON_LOADER_RANKS_TEST";

// Batches as text, by their numbers in the epoch of the whole job.
using Lines = std::map<int64_t, std::string>;

absl::Status AddLines(absl::StatusOr<std::unique_ptr<Loader>> loader,
                      const char* what, int64_t ranks, int64_t rank,
                      Lines& lines) {
  TENON_RETURN_IF_ERROR(loader.status());
  TENON_ASSIGN_OR_RETURN(const std::vector<Copy> batches,
                         RunEpoch(**loader, 5));
  for (const Copy& batch : batches) {
    std::vector<uint32_t> noise;
    for (const float value : batch.noise) {
      noise.push_back(std::bit_cast<uint32_t>(value));
    }
    lines[batch.number * ranks + rank] =
        absl::StrCat(what, " ", absl::StrJoin(batch.values, " "), " ",
                     absl::StrJoin(noise, " "));
  }
  return absl::OkStatus();
}

// Of a map-style and an iterable dataset, that part which `rank` reads.
absl::StatusOr<std::pair<Lines, Lines>> Epochs(std::optional<Rank> rank,
                                               int workers) {
  LoaderOptions options = {
      .batch_size = 16, .workers = workers, .seed = 8, .rank = rank};
  std::pair<Lines, Lines> lines;
  TENON_RETURN_IF_ERROR(AddLines(
      Loader::Create<Streams>(options, std::vector<int64_t>{50, 0, 70, 20, 33}),
      "stream", 1, 0, lines.second));
  const Rank part = rank.value_or(Rank());
  TENON_ASSIGN_OR_RETURN(
      options.sampler,
      DistributedSampler::Create(
          *RandomSampler::Create({.dataset_size = 192, .seed = 8}), part,
          {.batch_size = 16}));
  TENON_RETURN_IF_ERROR(AddLines(Loader::Create<Numbers>(options, 192), "item",
                                 part.world_size, part.rank, lines.first));
  return lines;
}

std::string Host() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::string ThisProgram() {
  char path[4096] = {};
  return readlink("/proc/self/exe", path, sizeof(path) - 1) > 0 ? path : "";
}

// A command that is one rank, and writes into `folder`. The files of this
// test's results are not its.
std::string RankCommand(const std::string& folder) {
  return absl::StrCat("env -u XML_OUTPUT_FILE -u TEST_PREMATURE_EXIT_FILE ",
                      kFolder, "=", folder, " ", ThisProgram(),
                      " --gtest_filter=LoaderRanksTest.AProcessOfAJob");
}

TEST(LoaderRanksTest, AProcessOfAJob) {
  const char* const folder = getenv(kFolder);
  if (folder == nullptr) GTEST_SKIP() << "a rank, started by JobLauncherTest";
  TENON_ASSERT_OK_AND_ASSIGN(const Rank rank, FindRank());
  TENON_ASSERT_OK_AND_ASSIGN(const auto epochs, Epochs(rank, 2));
  std::ofstream file(absl::StrCat(folder, "/", rank.rank));
  file << rank.world_size << " " << rank.local_rank.value_or(-1) << " "
       << (rank.node.empty() ? "-" : rank.node) << "\n";
  for (const Lines& lines : {epochs.first, epochs.second}) {
    for (const auto& [number, line] : lines) {
      file << number << " " << line << "\n";
    }
  }
  ASSERT_TRUE(file.flush().good());
}

// What two ranks have written into `folder`.
void ExpectTheEpochOfOneProcess(const std::string& folder,
                                const std::vector<int>& local_ranks) {
  Lines items, streams;
  for (size_t rank = 0; rank < 2; ++rank) {
    std::ifstream file(absl::StrCat(folder, "/", rank));
    int world_size = 0;
    int local_rank = 0;
    std::string node;
    file >> world_size >> local_rank >> node;
    EXPECT_EQ(world_size, 2);
    EXPECT_EQ(local_rank, local_ranks[rank]);
    EXPECT_EQ(node, Host());
    std::string line;
    for (int64_t number = 0; file >> number && std::getline(file, line);) {
      Lines& lines = line.substr(0, 5) == " item" ? items : streams;
      EXPECT_TRUE(lines.emplace(number, line.substr(1)).second) << number;
    }
  }
  TENON_ASSERT_OK_AND_ASSIGN(const auto whole, Epochs(std::nullopt, 0));
  EXPECT_THAT(whole.first, SizeIs(12));
  EXPECT_THAT(whole.second, SizeIs(4 + 5 + 2 + 3));
  EXPECT_EQ(items, whole.first);
  EXPECT_EQ(streams, whole.second);
}

std::string NewFolder() {
  std::string folder = absl::StrCat(testing::TempDir(), "/ranks.XXXXXX");
  return mkdtemp(folder.data()) == nullptr ? "" : folder;
}

// A launcher and two processes; `probe` succeeds where it can run.
struct RealLauncher {
  const char* name;
  const char* probe;
  const char* start;
};

class JobLauncherTest : public ::testing::TestWithParam<RealLauncher> {};

TEST_P(JobLauncherTest, InterleavedBatchesOfTwoRanksAreTheEpochOfOne) {
  const RealLauncher& launcher = GetParam();
  if (std::system(
          absl::StrCat("(", launcher.probe, ") >/dev/null 2>&1").c_str()) !=
      0) {
    GTEST_SKIP() << launcher.name << " cannot run here: " << launcher.probe;
  }
  const std::string folder = NewFolder();
  ASSERT_EQ(std::system(absl::StrCat("timeout 100 ", launcher.start, " ",
                                     RankCommand(folder))
                            .c_str()),
            0);
  ExpectTheEpochOfOneProcess(folder, {0, 1});
  std::filesystem::remove_all(folder);
}

// Two network namespaces, as two hosts.
TEST(JobHostsTest, InterleavedBatchesOfTwoHostsAreTheEpochOfOne) {
  const std::string folder = NewFolder();
  const int status = std::system(
      absl::StrCat("loader/two_hosts_testing.sh ", RankCommand(folder))
          .c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) {
    GTEST_SKIP() << "the script says why: loader/two_hosts_testing.sh";
  }
  ASSERT_EQ(WEXITSTATUS(status), 0);
  ExpectTheEpochOfOneProcess(folder, {0, 0});
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(
    All, JobLauncherTest,
    ::testing::Values(
        RealLauncher{"mpirun", "mpirun --version | grep 'Open MPI'",
                     "mpirun --allow-run-as-root --oversubscribe -n 2"},
        RealLauncher{"mpiexec_hydra", "mpiexec.hydra --version",
                     "mpiexec.hydra -n 2"},
        RealLauncher{"srun", "timeout 5 sinfo -h | grep idle",
                     "srun -n 2 --overcommit"},
        RealLauncher{"torchrun", "timeout 60 torchrun --help",
                     "torchrun --no-python --nproc-per-node=2"}),
    [](const auto& launcher) { return launcher.param.name; });

}  // namespace
}  // namespace tenon::loader
