// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A peer that changes a TensorSpec in shared memory at full speed, between any
// two reads of this process. A spec that is copied, then checked, then used, is
// an error or a tensor inside its storage, whatever the peer does.
//
// TENON_FLIPPER_READS is the number of reads; 10000000 for the full run:
//   bazel test --config=asan --test_env=TENON_FLIPPER_READS=10000000 ...

#include <stdlib.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/copy_from_shared.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

constexpr size_t kStorageBytes = 4096;
constexpr int64_t kDefaultReads = 300'000;
// No outcome may be too rare to be significant.
constexpr int64_t kOfEachAtLeast = 1000;
constexpr absl::Duration kPatience = absl::Minutes(20);

using Words = std::array<uint64_t, sizeof(TensorSpec) / sizeof(uint64_t)>;

Words WordsOf(const TensorSpec& spec) {
  Words words;
  std::memcpy(words.data(), &spec, sizeof(spec));
  return words;
}

// Specs that fit into the storage, so that a mixture of them may.
std::vector<Words> GoodSpecs() {
  std::vector<Words> specs;
  for (const auto& spec :
       {TensorSpec::Contiguous(kDtypeOf<float>, {32, 32}),
        TensorSpec::Contiguous(kDtypeOf<uint8_t>, {4096}),
        TensorSpec::Contiguous(kDtypeOf<double>, {2, 4, 8, 8}),
        TensorSpec::Contiguous(kDtypeOf<int16_t>, {7}, 4082),
        TensorSpec::Strided(kDtypeOf<uint8_t>, {64, 64}, {-64, -1}, 4095),
        TensorSpec::Strided(kDtypeOf<int32_t>, {8, 0, 3}, {1, 1, 1}),
        TensorSpec::Contiguous({kDLFloat, 32, 4}, {2, 2, 2, 2, 2, 2, 2, 2})}) {
    specs.push_back(WordsOf(spec.value()));
  }
  return specs;
}

// The peer. Writes words of valid specs, arbitrary words, and mixtures.
[[noreturn]] void FlipForEver(uint64_t* shared) {
  static constexpr uint64_t kBad[] = {
      0,          1,     2,          255,
      4096,       4097,  1ull << 32, 1ull << 62,
      1ull << 63, ~0ull, ~0ull >> 1, 0xffff'ffff'0001'2002};
  const std::vector<Words> good = GoodSpecs();
  std::mt19937_64 random(1);
  for (;;) {
    const Words& spec = good[random() % good.size()];
    for (size_t i = 0; i < spec.size(); ++i) {
      std::atomic_ref<uint64_t>(shared[i]).store(spec[i],
                                                 std::memory_order_relaxed);
    }
    for (uint64_t n = random() % 24; n > 0; --n) {
      const uint64_t word = random();
      const size_t at = word % spec.size();
      std::atomic_ref<uint64_t>(shared[at])
          .store((word >> 8) % 2 == 0 ? kBad[(word >> 16) % std::size(kBad)]
                                      : good[(word >> 16) % good.size()][at],
                 std::memory_order_relaxed);
    }
  }
}

// Reads the first and last element, whose address is somewhere in the storage,
// which AddressSanitizer guards.
void ReadEnds(const Tensor& tensor) {
  const TensorSpec& spec = tensor.spec();
  ASSERT_LE(spec.byte_range().end, kStorageBytes) << spec.ToString();
  if (spec.elements() == 0) return;
  for (const int64_t end : {0, -1}) {
    const std::vector<int64_t> index(spec.rank(), end);
    const auto element = tensor.at<const std::byte>(index);
    ASSERT_THAT(element, IsOk()) << spec.ToString();
    for (int64_t i = 0; i < spec.element_bytes(); ++i) {
      ASSERT_EQ((*element)[i], std::byte{0x5a}) << spec.ToString();
    }
  }
}

void UseViews(const Tensor& tensor) {
  if (tensor.spec().rank() == 0) return;
  ReadEnds(tensor.Transpose(0, -1).value());
  ReadEnds(tensor.Slice(-1, {.start = 1, .step = 3}).value());
  if (tensor.spec().shape()[0] > 0) ReadEnds(tensor.Select(0, -1).value());
}

int64_t WantedReads() {
  const char* text = getenv("TENON_FLIPPER_READS");
  int64_t reads = kDefaultReads;
  if (text != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &reads)) << text;
  }
  return reads;
}

TEST(TensorSpecFlipperTest, CopiesAreErrorsOrTensorsInsideTheirStorage) {
  const Segment segment =
      Segment::CreateSharedWritable(sizeof(TensorSpec)).value();
  const WritableMapping mapping = segment.MapWritable().value();
  auto* const words = reinterpret_cast<uint64_t*>(mapping.data());
  const auto* const shared = reinterpret_cast<TensorSpec*>(mapping.data());
  const auto flipper =
      ForkedChild::Fork({.name = "flipper", .watchdog = 2 * kPatience},
                        [words](const Reporter&) { FlipForEver(words); });
  ASSERT_THAT(flipper, IsOk());

  const auto storage = Storage::CreatePrivate(kStorageBytes).value();
  std::memset(storage->Write().value(), 0x5a, kStorageBytes);
  const int64_t reads = WantedReads();
  const Deadline deadline = Deadline::After(kPatience);
  int64_t good = 0;
  int64_t bad = 0;
  while (good + bad < reads || good < kOfEachAtLeast || bad < kOfEachAtLeast) {
    const auto tensor = Tensor::FromSpec(CopyFromShared(shared), storage);
    if (!tensor.ok()) {
      ASSERT_TRUE(absl::IsInvalidArgument(tensor.status()));
      ++bad;
    } else {
      ++good;
      ReadEnds(*tensor);
      UseViews(*tensor);
    }
    if (HasFatalFailure()) return;
    if ((good + bad) % 1024 != 0) continue;
    ASSERT_FALSE(deadline.has_passed())
        << good << " tensors and " << bad << " errors";
  }
  RecordProperty("tensors", std::to_string(good));
  RecordProperty("errors", std::to_string(bad));
  std::printf("%s tensors, %s errors\n", std::to_string(good).c_str(),
              std::to_string(bad).c_str());
}

}  // namespace
}  // namespace tenon
