// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/value/shared_memory_safe.h"

#include <array>
#include <atomic>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"

namespace tenon {
namespace {

enum class Color : uint8_t { kRed, kBlue };
struct Empty {};
struct PlainPoint {
  double x;
  double y;
};
struct Nested {
  PlainPoint points[3];
  std::array<PlainPoint, 2> more;
  Color color;
  bool good;
  char name[200];
};
struct Counters {
  std::atomic<uint64_t> hits;
  std::atomic<bool> stop;
};
struct WithDefaults {
  int a = 3;
  PlainPoint p = {.x = 1, .y = 2};
};
struct WithBits {
  uint32_t low : 3;
  uint32_t high : 29;
};
struct EightFields {
  int a, b, c, d, e, f, g, h;
};

struct PointerFirst {
  int* pointer;
  int number;
};
struct PointerLast {
  int number;
  const char* pointer;
};
struct PointerDeep {
  struct {
    struct {
      int a;
      void* b;
    } inner[2];
  } outer;
};
struct FunctionPointer {
  void (*function)();
};
struct MemberPointer {
  int PlainPoint::*member;
};
struct Reference {
  int& reference;
};
struct View {
  std::string_view text;
};
struct ArrayOfPointers {
  int* pointers[4];
};
struct NineFields {
  int a, b, c, d, e, f, g, h, i;
};
class PrivateFields {
 public:
  int number() const { return number_; }

 private:
  int number_ = 0;
};
class Vouched {
 public:
  int number() const { return number_; }

 private:
  int number_ = 0;
};
struct VouchedButOwning {
  std::string text;
};
union Either {
  int number;
  float fraction;
};
struct Virtual {
  virtual ~Virtual() = default;
};
struct Sixteen {
  uint64_t a, b;
};
struct WithLock {
  std::atomic<Sixteen> locked;
};

}  // namespace

template <>
inline constexpr bool kVouchedSharedMemorySafe<Vouched> = true;
template <>
inline constexpr bool kVouchedSharedMemorySafe<VouchedButOwning> = true;

namespace {

// The concept is all compile-time: that this file compiles is the test.
static_assert(SharedMemorySafe<int>);
static_assert(SharedMemorySafe<bool>);
static_assert(SharedMemorySafe<double>);
static_assert(SharedMemorySafe<Color>);
static_assert(SharedMemorySafe<std::byte>);
static_assert(SharedMemorySafe<std::complex<float>>);
static_assert(SharedMemorySafe<std::atomic<int>>);
static_assert(SharedMemorySafe<std::array<int, 100>>);
static_assert(SharedMemorySafe<Empty>);
static_assert(SharedMemorySafe<PlainPoint>);
static_assert(SharedMemorySafe<Nested>);
static_assert(SharedMemorySafe<Counters>);
static_assert(SharedMemorySafe<WithDefaults>);
static_assert(SharedMemorySafe<WithBits>);
static_assert(SharedMemorySafe<EightFields>);
static_assert(SharedMemorySafe<Vouched>);

static_assert(!SharedMemorySafe<int*>);
static_assert(!SharedMemorySafe<const char*>);
static_assert(!SharedMemorySafe<int&>);
static_assert(!SharedMemorySafe<const int>);
static_assert(!SharedMemorySafe<volatile int>);
static_assert(!SharedMemorySafe<void>);
static_assert(!SharedMemorySafe<std::nullptr_t>);
static_assert(!SharedMemorySafe<void()>);
static_assert(!SharedMemorySafe<int PlainPoint::*>);
static_assert(!SharedMemorySafe<std::atomic<int*>>);
static_assert(!SharedMemorySafe<std::atomic<Sixteen>>);
static_assert(!SharedMemorySafe<WithLock>);
static_assert(!SharedMemorySafe<PointerFirst>);
static_assert(!SharedMemorySafe<PointerLast>);
static_assert(!SharedMemorySafe<PointerDeep>);
static_assert(!SharedMemorySafe<FunctionPointer>);
static_assert(!SharedMemorySafe<MemberPointer>);
static_assert(!SharedMemorySafe<Reference>);
static_assert(!SharedMemorySafe<View>);
static_assert(!SharedMemorySafe<ArrayOfPointers>);
static_assert(!SharedMemorySafe<std::array<int*, 2>>);
static_assert(!SharedMemorySafe<NineFields>);
static_assert(!SharedMemorySafe<PrivateFields>);
static_assert(!SharedMemorySafe<VouchedButOwning>);
static_assert(!SharedMemorySafe<Either>);
static_assert(!SharedMemorySafe<Virtual>);
static_assert(!SharedMemorySafe<std::string>);
static_assert(!SharedMemorySafe<std::string_view>);
static_assert(!SharedMemorySafe<absl::string_view>);
static_assert(!SharedMemorySafe<absl::Span<int>>);
static_assert(!SharedMemorySafe<std::span<int>>);
static_assert(!SharedMemorySafe<std::vector<int>>);
static_assert(!SharedMemorySafe<std::unique_ptr<int>>);
static_assert(!SharedMemorySafe<std::reference_wrapper<int>>);
static_assert(!SharedMemorySafe<std::optional<int>>);
static_assert(!SharedMemorySafe<std::pair<int, int>>);

TEST(SharedMemorySafeTest, IsCheckedWhenItIsCompiled) {
  // A failed requirement removes a template, and is not an error.
  EXPECT_TRUE((requires { requires SharedMemorySafe<PlainPoint>; }));
  EXPECT_FALSE((requires { requires SharedMemorySafe<PointerLast>; }));
}

}  // namespace
}  // namespace tenon
