// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Tensors that end in another thread, or at the end of the program.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::IsEmpty;

class TensorLifetimeTest : public testing::TestWithParam<SharingStrategy> {
 protected:
  Tensor Create() const {
    return Tensor::CreateShared(
               kDtypeOf<int32_t>, {4, 4},
               {.segment = {.strategy = GetParam(), .name_prefix = prefix_}})
        .value();
  }

  const std::string prefix_ = UniqueTestPrefix();
};

// Views of one storage in many threads: the last one releases it.
TEST_P(TensorLifetimeTest, EndsInAnyThread) {
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 100; ++i) {
    Tensor tensor = Create();
    std::vector<std::thread> threads;
    for (int64_t row = 0; row < 4; ++row) {
      threads.emplace_back(
          [view = tensor.Select(0, row).value(), row]() mutable {
            ASSERT_THAT(view.Fill(static_cast<int32_t>(row)), IsOk());
            view = Tensor();
          });
    }
    tensor = Tensor();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
    ASSERT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }
  EXPECT_EQ(CountOpenFds(), fds);
}

// Discouraged, but supported.
[[noreturn]] void ExitWithStaticTensors(Tensor tensor) {
  static TensorImporter importer;
  static Tensor kept = std::move(tensor);
  static Tensor view = kept.Select(0, 1).value();
  importer.Recognize(kept);
  std::exit(0);
}

class TensorLifetimeDeathTest : public TensorLifetimeTest {};

TEST_P(TensorLifetimeDeathTest, EndsWithTheProgram) {
  EXPECT_EXIT(ExitWithStaticTensors(Create()), testing::ExitedWithCode(0), "");
  EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
}

std::string NameOf(const testing::TestParamInfo<SharingStrategy>& info) {
  return std::string(SharingStrategyName(info.param));
}

INSTANTIATE_TEST_SUITE_P(Strategies, TensorLifetimeTest,
                         testing::ValuesIn(AllSharingStrategies()), NameOf);
INSTANTIATE_TEST_SUITE_P(Strategies, TensorLifetimeDeathTest,
                         testing::ValuesIn(AllSharingStrategies()), NameOf);

}  // namespace
}  // namespace tenon
