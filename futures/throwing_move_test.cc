// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Moves that throw: of values, which the compiler refuses, and of callbacks.

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/futures/callback_failure.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/futures/internal/future_state.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::futures {
namespace {

using internal_future::kCanBeValue;

struct Plain {
  std::vector<int> numbers;
  std::string name;
};
struct WithConstMember {
  const std::vector<int> numbers;
};
struct WithCopyOnly {
  WithCopyOnly(const WithCopyOnly& other) : name(other.name) {}
  std::string name;
};

static_assert(kCanBeValue<void>);
static_assert(kCanBeValue<int>);
static_assert(kCanBeValue<Plain>);
static_assert(kCanBeValue<std::unique_ptr<WithConstMember>>);
static_assert(kCanBeValue<std::shared_ptr<const WithCopyOnly>>);
static_assert(kCanBeValue<absl::StatusOr<Plain>>);
static_assert(!kCanBeValue<WithConstMember>);
static_assert(!kCanBeValue<WithCopyOnly>);

// A callback whose move throws when the countdown reaches zero.
class Fragile {
 public:
  explicit Fragile(int* calls) : calls_(calls) {}
  Fragile(const Fragile& other) : calls_(other.calls_) {
    if (moves_left > 0 && --moves_left == 0) throw std::runtime_error("broken");
  }
  void operator()(const absl::StatusOr<int>& /*result*/) { ++*calls_; }

  static inline int moves_left = 0;  // 0: no limit.

 private:
  int* calls_;
};

void Ignore(const absl::Status& /*error*/) noexcept {}

// Attaches a callback whose moves throw, each in a separate run. If the
// exception does not reach the caller, the callback is called, or its error
// arrives: in the future that `attach` returns, or as a reported failure.
template <typename Attach>
void ThrowAtEveryMove(const Attach& attach) {
  const CallbackFailureHandler former = SetCallbackFailureHandler(Ignore);
  bool has_thrown = true;
  for (int at = 1; has_thrown; ++at) {
    ASSERT_LT(at, 100);
    int ends = 0;
    const Fragile fragile(&ends);
    Promise<int> promise;
    Future<int> future = promise.future();
    Future<void> made;
    const uint64_t failures = CallbackFailureCount();
    bool is_attached = true;
    Fragile::moves_left = at;
    try {
      made = attach(std::move(future), fragile);
    } catch (const std::runtime_error&) {
      is_attached = false;
    }
    EXPECT_TRUE(promise.TrySetValue(7));
    has_thrown = Fragile::moves_left == 0;
    Fragile::moves_left = 0;
    if (!is_attached) continue;
    ends += static_cast<int>(CallbackFailureCount() - failures);
    ASSERT_TRUE(made.done());
    const absl::StatusCode code = made.value().code();
    if (code == absl::StatusCode::kUnknown ||
        code == absl::StatusCode::kAborted) {
      ++ends;
    }
    EXPECT_EQ(ends, 1) << at;
  }
  SetCallbackFailureHandler(former);
}

TEST(ThrowingMoveTest, OfADoneCallback) {
  ThrowAtEveryMove([](const Future<int>& future, const Fragile& fragile) {
    future.AddDoneCallback(fragile);
    return Future<void>();
  });
}

TEST(ThrowingMoveTest, OfADoneCallbackOnAnExecutor) {
  ThrowAtEveryMove([](const Future<int>& future, const Fragile& fragile) {
    future.AddDoneCallback(InlineExecutor(), fragile);
    return Future<void>();
  });
}

TEST(ThrowingMoveTest, OfACallbackOfThen) {
  ThrowAtEveryMove([](Future<int> future, const Fragile& fragile) {
    return std::move(future).Then(fragile);
  });
}

TEST(ThrowingMoveTest, OfACallbackOfThenOnAnExecutor) {
  ThrowAtEveryMove([](Future<int> future, const Fragile& fragile) {
    return std::move(future).Then(InlineExecutor(), fragile);
  });
}

}  // namespace
}  // namespace tenon::futures
