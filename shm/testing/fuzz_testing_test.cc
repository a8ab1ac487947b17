// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/fuzz_testing.h"

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest-spi.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

using ::testing::Ge;
using ::testing::IsSupersetOf;
using ::testing::SizeIs;

constexpr char kCorpus[] = "shm/tensor/testdata/tensor_spec_fuzz";

std::vector<std::string>* seen = nullptr;

int Record(const uint8_t* data, size_t size) {
  seen->emplace_back(data, data + size);
  return 0;
}

std::vector<std::string> InputsOf(const ReplayOptions& options) {
  std::vector<std::string> inputs;
  seen = &inputs;
  ReplayCorpus(Record, kCorpus, options);
  seen = nullptr;
  return inputs;
}

TEST(FuzzTestingTest, WithoutMutationsItReplaysTheCorpus) {
  const std::vector<std::string> corpus = InputsOf({});
  EXPECT_THAT(corpus, SizeIs(Ge(10u)));
  // Two of the files, "empty" and "one_byte".
  EXPECT_THAT(corpus, IsSupersetOf({std::string(), std::string("\7")}));
}

TEST(FuzzTestingTest, MutationsComeAfterTheCorpusAndDiffer) {
  const size_t corpus = InputsOf({}).size();
  const std::vector<std::string> inputs = InputsOf({.mutations = 1000});
  ASSERT_THAT(inputs, SizeIs(corpus + 1000));
  EXPECT_THAT(std::set<std::string>(inputs.begin(), inputs.end()),
              SizeIs(Ge(500u)));
}

TEST(FuzzTestingTest, SameSeedMeansSameInputs) {
  EXPECT_EQ(InputsOf({.mutations = 100, .seed = 7}),
            InputsOf({.mutations = 100, .seed = 7}));
  EXPECT_NE(InputsOf({.mutations = 100, .seed = 7}),
            InputsOf({.mutations = 100, .seed = 8}));
}

TEST(FuzzTestingTest, NoCorpusIsAFailure) {
  EXPECT_FATAL_FAILURE(ReplayCorpus(Record, "shm/testdata/nothing", {}),
                       "no corpus in shm/testdata/nothing");
}

TEST(FuzzTestingDeathTest, InputThatAbortsIsPrinted) {
  const FuzzTarget aborts = [](const uint8_t* data, size_t size) {
    if (size == 1 && data[0] == 7) abort();
    return 0;
  };
  EXPECT_DEATH(ReplayCorpus(aborts, kCorpus, {}), "input of 1 bytes: 07");
}

}  // namespace
}  // namespace tenon
