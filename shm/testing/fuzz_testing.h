// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Runs a libFuzzer target without libFuzzer: first the committed corpus, then
// mutations of it, the same ones every time.
//
//   extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
//
//   TEST(MyFuzzTest, CorpusAndItsMutations) {
//     ReplayCorpus(LLVMFuzzerTestOneInput, "shm/testdata/my_fuzz",
//                  {.mutations = 100'000});
//   }
//
// Add the inputs that a fuzzer finds to the corpus.

#ifndef TENON_SHM_TESTING_FUZZ_TESTING_H_
#define TENON_SHM_TESTING_FUZZ_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace tenon {

// Aborts on a defect. Its result is ignored.
using FuzzTarget = int (*)(const uint8_t* data, size_t size);

struct ReplayOptions {
  size_t mutations = 0;
  uint64_t seed = 1;
};

// Calls `target` with every file in `directory`, and then with the mutations.
// An input that makes it abort is printed before. The directory is relative to
// the root of the workspace, or, outside of Bazel, to the working directory. An
// empty directory fails the test.
void ReplayCorpus(FuzzTarget target, const std::string& directory,
                  const ReplayOptions& options);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_FUZZ_TESTING_H_
