// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/report/crash_record.h"
#include "tenon/spawn/report/process_error.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

class ThrowStackTest : public ChildTest {};

// Each does one thing, so that the compiler does not move a part of it
// elsewhere as unlikely.
[[noreturn, gnu::noinline]] void ThrowHere() {
  throw std::runtime_error("thrown");
}
[[noreturn, gnu::noinline]] void ThrowANumberHere() { throw 1; }

absl::Status ThrowAway(Child& child) {
  try {
    throw std::logic_error("caught before");
  } catch (const std::logic_error&) {
  }
  if (child.index() == 0) ThrowHere();
  if (child.index() == 1) ThrowANumberHere();
  return absl::NotFoundError("not thrown");
}
TENON_SPAWN_ENTRY("throw-away", ThrowAway);

// The offset in the test's own file, from a frame's text; 0 for another file.
uint64_t OffsetIn(absl::string_view described) {
  const size_t at = described.find("_test+0x");
  if (at == absl::string_view::npos) return 0;
  return strtoull(std::string(described.substr(at + 8)).c_str(), nullptr, 16);
}

std::optional<ProcessRaised> Raise(int index) {
  absl::StatusOr<Process> child =
      Process::Start({.entry = "throw-away", .index = index});
  if (!child.ok()) return std::nullopt;
  const absl::Status how = child->Join(Watchdog());
  const auto raised = GetProcessRaised(how);
  if (raised) {
    EXPECT_THAT(std::string(how.message()), HasSubstr(raised->stack));
  }
  return raised;
}

TEST_F(ThrowStackTest, PlaceOfTheThrowIsTold) {
  std::ifstream file("/proc/self/maps");
  const std::string maps(std::istreambuf_iterator<char>(file), {});
  for (const int index : {0, 1}) {
    void (*const function)() = index == 0 ? ThrowHere : ThrowANumberHere;
    const uint64_t place =
        OffsetIn(DescribeAddress(reinterpret_cast<uintptr_t>(function), maps));
    ASSERT_NE(place, 0u);
    const auto raised = Raise(index);
    ASSERT_TRUE(raised.has_value());
    const std::string first(
        absl::string_view(raised->stack).substr(0, raised->stack.find('\n')));
    EXPECT_GE(OffsetIn(first), place) << raised->stack;
    EXPECT_LT(OffsetIn(first), place + 1000) << raised->stack;
  }
}

TEST_F(ThrowStackTest, ErrorThatIsReturnedHasNone) {
  const auto raised = Raise(2);
  ASSERT_TRUE(raised.has_value());
  EXPECT_EQ(raised->stack, "");
}

}  // namespace
}  // namespace tenon::spawn
