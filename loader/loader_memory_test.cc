// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A worker that the kernel kills for lack of memory, in a control group with a
// limit.

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/data/worker_init.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/testing/memory_cgroup_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLimit = 128 * kMiB;
constexpr int64_t kGreedy = 13;

// In a worker, item 13 takes more memory than the group has, and the worker is
// the process that the kernel chooses.
class Greedy : public Numbers {
 public:
  Greedy() : Numbers(32) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    if (GetWorkerInfo() && index == kGreedy) {
      std::ofstream("/proc/self/oom_score_adj") << 1000;
      void* const memory = mmap(nullptr, 2 * kLimit, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) return absl::ResourceExhaustedError("mmap");
      std::memset(memory, 1, 2 * kLimit);
    }
    return Numbers::Get(index, random, sample);
  }
};
TENON_LOADER_DATASET(Greedy());

void ExpectKilledForMemory(const absl::Status& status) {
  EXPECT_THAT(
      status,
      StatusIs(StatusCode::kAborted,
               AllOf(HasSubstr("was killed by signal 9 (SIGKILL), by the "
                               "kernel for lack of memory (peak 0.1 of 0.1 "
                               "GiB); its peak: "),
                     HasSubstr("while it loaded sample 13 (item 13)"))));
}

TEST(LoaderMemoryTest, AWorkerKilledByTheKernelIsNamedWithThePeak) {
  absl::StatusOr<MemoryCgroup> group =
      MemoryCgroup::Create(UniqueTestPrefix(), kLimit);
  if (!group.ok()) GTEST_SKIP() << group.status();
  group->ForbidSwap();
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(group->Enter());
    LoaderOptions options = {.batch_size = 4, .workers = 1, .seed = 7};
    TENON_ASSERT_OK_AND_ASSIGN(auto fails, Loader::Create<Greedy>(options));
    ExpectKilledForMemory(RunEpoch(*fails, 0).status());
    fails.reset();
    // It costs the sample and nothing else.
    options.on_worker_death = OnWorkerDeath::kSkipSample;
    TENON_ASSERT_OK_AND_ASSIGN(auto skips, Loader::Create<Greedy>(options));
    TENON_ASSERT_OK_AND_ASSIGN(const std::vector<Copy> batches,
                               RunEpoch(*skips, 0));
    ASSERT_EQ(batches.size(), 8u);
    EXPECT_THAT(batches[kGreedy / 4].values, ElementsAre(12, 14, 15));
    ASSERT_EQ(skips->incidents().size(), 1u);
    ExpectKilledForMemory(skips->incidents()[0]);
  }));
  EXPECT_TRUE(Becomes([&] { return group->Remove(); })) << group->path();
}

}  // namespace
}  // namespace tenon::loader
