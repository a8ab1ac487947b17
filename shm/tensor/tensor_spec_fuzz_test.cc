// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of TensorSpec: its bytes are a peer's. CheckFits() is compared
// with a second, simpler implementation in 128 bits; every accepted spec must
// have every element, and every view's elements, inside the storage.
//
// An input is a spec (144 bytes), the size of the storage (8), and a seed for
// the elements and views to try (8); missing bytes are 0.
//
// As a test it replays testdata/tensor_spec_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with tensor_spec.cc, tensor_spec_reshape.cc and dtype.cc.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/tensor/tensor_spec.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

__extension__ using Wide = __int128;

constexpr Wide kMaxBytes = std::numeric_limits<int64_t>::max();
constexpr uint64_t kAnySize = std::numeric_limits<uint64_t>::max();

struct Input {
  struct {
    DLDataType dtype;
    int32_t rank;
    uint64_t byte_offset;
    int64_t shape[8];
    int64_t strides[8];
  } spec;
  uint64_t storage_bytes;
  uint64_t seed;
};
static_assert(sizeof(Input) == 160);

// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  int64_t Below(int64_t limit) {
    return static_cast<int64_t>(Next() % static_cast<uint64_t>(limit));
  }
  // Mostly near extents and dimensions, sometimes arbitrary.
  int64_t Number() {
    const auto any = static_cast<int64_t>(Next());
    return Below(4) == 0 ? any : any % 10;
  }

 private:
  uint64_t state_;
};

// ---- The simpler implementation ----

struct PlainRange {
  Wide first = 0;
  Wide end = 0;  // 0 without elements.
};

Wide ElementBytes(const Input& in) {
  return Wide{in.spec.dtype.bits / 8} * in.spec.dtype.lanes;
}

// Of a spec that is valid apart from the offsets of its elements; empty if one
// is farther than 2^63-1 bytes from the first.
std::optional<PlainRange> RangeOf(const Input& in) {
  for (int i = 0; i < in.spec.rank; ++i) {
    if (in.spec.shape[i] == 0) return PlainRange{};
  }
  Wide low = 0;
  Wide high = 0;
  for (int i = 0; i < in.spec.rank; ++i) {
    // Below 2^126; a sum of eight is not, so the sums are bounded first.
    const Wide reach = (Wide{in.spec.shape[i]} - 1) * in.spec.strides[i];
    (reach < 0 ? low : high) += reach;
    if (low < -kMaxBytes - 1 || high > kMaxBytes) return {};
  }
  const Wide size = ElementBytes(in);
  if (low * size < -kMaxBytes - 1 || (high + 1) * size > kMaxBytes) return {};
  return PlainRange{in.spec.byte_offset + low * size,
                    in.spec.byte_offset + (high + 1) * size};
}

bool NumbersAreGood(const Input& in) {
  const DLDataType dtype = in.spec.dtype;
  if (dtype.bits == 0 || dtype.bits % 8 != 0 || dtype.lanes == 0) return false;
  if (in.spec.rank < 0 || in.spec.rank > 8) return false;
  Wide bytes = ElementBytes(in);
  for (int i = 0; i < 8; ++i) {
    if (i >= in.spec.rank) {
      if (in.spec.shape[i] != 0 || in.spec.strides[i] != 0) return false;
      continue;
    }
    if (in.spec.shape[i] < 0) return false;
    if (in.spec.shape[i] > 0) bytes *= in.spec.shape[i];
    if (bytes > kMaxBytes) return false;
  }
  return in.spec.byte_offset % (dtype.bits / 8) == 0;
}

bool PlainFits(const Input& in, uint64_t storage_bytes) {
  if (!NumbersAreGood(in) || in.spec.byte_offset > storage_bytes) return false;
  const std::optional<PlainRange> range = RangeOf(in);
  return range && range->first >= 0 && range->end <= Wide{storage_bytes};
}

// ---- Invariants ----

// Calls all functions that must be safe on any bytes.
void UseAccessors(const TensorSpec& spec) {
  TENON_CHECK(spec.rank() >= 0 && spec.rank() <= 8, "no such rank");
  TENON_CHECK(spec.shape().size() == static_cast<size_t>(spec.rank()) &&
                  spec.strides().size() == spec.shape().size(),
              "shape and strides are not of the rank");
  TENON_CHECK(!spec.ToString().empty(), "no text");
  TENON_CHECK(spec.element_bytes() >= 0, "elements of negative size");
  TENON_CHECK(spec.bytes() == static_cast<int64_t>(
                                  static_cast<uint64_t>(spec.elements()) *
                                  static_cast<uint64_t>(spec.element_bytes())),
              "bytes and elements disagree");
  spec.is_contiguous();
  spec.byte_range();
}

using Index = std::vector<int64_t>;

void CheckElement(const TensorSpec& spec, const Input& in, const Index& index) {
  Wide at = 0;
  for (size_t i = 0; i < index.size(); ++i) {
    at += Wide{index[i]} * in.spec.strides[i];
  }
  const absl::StatusOr<uint64_t> offset = spec.ByteOffsetOf(index);
  TENON_CHECK(offset.ok(), "an element is not there");
  TENON_CHECK(Wide{*offset} == in.spec.byte_offset + at * ElementBytes(in),
              "an element lies elsewhere");
  const TensorSpec::ByteRange range = spec.byte_range();
  TENON_CHECK(
      range.first <= *offset && *offset + spec.element_bytes() <= range.end,
      "an element lies outside of its tensor's bytes");
}

// Every corner and some elements between.
void CheckElements(const TensorSpec& spec, const Input& in, Random& random) {
  if (spec.elements() == 0) return;
  const auto rank = static_cast<size_t>(spec.rank());
  for (unsigned corner = 0; corner < (1u << rank); ++corner) {
    Index index(rank);
    for (size_t i = 0; i < rank; ++i) {
      index[i] = (corner >> i) & 1 ? spec.shape()[i] - 1 : 0;
    }
    CheckElement(spec, in, index);
  }
  for (int n = 0; n < 8; ++n) {
    Index index(rank);
    for (size_t i = 0; i < rank; ++i) index[i] = random.Below(spec.shape()[i]);
    CheckElement(spec, in, index);
  }
}

absl::StatusOr<TensorSpec> RandomView(const TensorSpec& spec, Random& random) {
  const auto dim = static_cast<int>(random.Number());
  switch (random.Below(4)) {
    case 0: {
      SliceRange range = {.start = random.Number(), .step = random.Number()};
      if (random.Below(2) == 0) range.stop = random.Number();
      return spec.Slice(dim, range);
    }
    case 1:
      return spec.Select(dim, random.Number());
    case 2:
      return spec.Transpose(dim, static_cast<int>(random.Number()));
    default: {
      std::array<int64_t, 3> shape;
      for (int64_t& extent : shape) extent = random.Number();
      shape[random.Below(3)] = -1;
      shape[random.Below(3)] = 1;
      const auto rank = static_cast<size_t>(random.Below(4));
      return spec.Reshape({shape.data(), rank});
    }
  }
}

void CheckView(const TensorSpec& spec, const TensorSpec& view,
               uint64_t storage_bytes) {
  UseAccessors(view);
  TENON_CHECK(view.CheckFits(storage_bytes).ok(),
              "a view of what fits does not fit");
  const TensorSpec::ByteRange inner = view.byte_range();
  const TensorSpec::ByteRange outer = spec.byte_range();
  TENON_CHECK(view.elements() == 0 ||
                  (inner.first >= outer.first && inner.end <= outer.end),
              "a view leaves the bytes of its tensor");
  TENON_CHECK(view.elements() <= spec.elements(),
              "a view has more elements than its tensor");
}

// Views of views, as long as there are any.
void CheckViews(TensorSpec spec, uint64_t storage_bytes, Random& random) {
  for (int n = 0; n < 6; ++n) {
    const absl::StatusOr<TensorSpec> view = RandomView(spec, random);
    if (!view.ok()) continue;
    CheckView(spec, *view, storage_bytes);
    spec = *view;
  }
}

void FuzzOne(const Input& in) {
  TensorSpec spec;
  static_assert(sizeof(spec) == sizeof(in.spec));
  std::memcpy(static_cast<void*>(&spec), &in.spec, sizeof(spec));
  Random random(in.seed);
  UseAccessors(spec);
  const absl::Status fits = spec.CheckFits(in.storage_bytes);
  TENON_CHECK(fits.ok() == PlainFits(in, in.storage_bytes),
              "a spec that fits was refused, or the other way round");
  TENON_CHECK(
      fits.ok() || (absl::IsInvalidArgument(fits) && !fits.message().empty()),
      "an error is not kInvalidArgument, or says nothing");
  if (fits.ok()) CheckElements(spec, in, random);
  if (PlainFits(in, kAnySize)) {
    return CheckViews(spec, fits.ok() ? in.storage_bytes : kAnySize, random);
  }
  for (int n = 0; n < 4; ++n) {
    TENON_CHECK(absl::IsInvalidArgument(RandomView(spec, random).status()),
                "there is a view of what is inconsistent");
  }
}

}  // namespace
}  // namespace tenon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::Input in = {};
  if (size > 0) std::memcpy(&in, data, std::min(size, sizeof(in)));
  tenon::FuzzOne(in);
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon {
namespace {

TEST(TensorSpecFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput, "shm/tensor/testdata/tensor_spec_fuzz",
               {.mutations = 300'000});
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ
