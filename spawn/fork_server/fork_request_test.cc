// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/fork_server/fork_request.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/testing/mutate_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ForkRequest FullRequest() {
  return {.hold_interrupt = true,
          .ignored_signals = 0x8000'0000'0000'0001,
          .own_group = true,
          .orphan_grace = absl::Milliseconds(1500),
          .environment = {"PATH=/bin:/usr/bin", "EMPTY=", "NO NAME", ""},
          .children = 8,
          .stop = true};
}

ForkReply FullReply() {
  return {absl::NotFoundError(std::string("no \0 entry", 10)), {1, 4711, -1}};
}

TEST(ForkRequestTest, EachFieldTravels) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const ForkRequest got,
      DecodeForkRequest(EncodeForkRequest(FullRequest())));
  EXPECT_TRUE(got.hold_interrupt);
  EXPECT_EQ(got.ignored_signals, 0x8000'0000'0000'0001);
  EXPECT_TRUE(got.own_group);
  EXPECT_EQ(got.orphan_grace, absl::Milliseconds(1500));
  EXPECT_THAT(got.environment,
              ElementsAre("PATH=/bin:/usr/bin", "EMPTY=", "NO NAME", ""));
  EXPECT_EQ(got.children, 8u);
  EXPECT_TRUE(got.stop);
}

// Each flag alone: none is read in the place of another one.
TEST(ForkRequestTest, FlagsAreIndependent) {
  for (int flag = 0; flag < 3; ++flag) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const ForkRequest got,
        DecodeForkRequest(EncodeForkRequest({.hold_interrupt = flag == 0,
                                             .own_group = flag == 1,
                                             .stop = flag == 2})));
    EXPECT_EQ(got.hold_interrupt, flag == 0);
    EXPECT_EQ(got.own_group, flag == 1);
    EXPECT_EQ(got.stop, flag == 2);
    EXPECT_EQ(got.children, 0u);
    EXPECT_THAT(got.environment, IsEmpty());
  }
}

TEST(ForkRequestTest, AnInfiniteGraceStaysLong) {
  TENON_ASSERT_OK_AND_ASSIGN(const ForkRequest got,
                             DecodeForkRequest(EncodeForkRequest(
                                 {.orphan_grace = absl::InfiniteDuration()})));
  EXPECT_GT(got.orphan_grace, absl::Hours(24 * 365 * 200));
}

TEST(ForkRequestTest, RepliesTravel) {
  TENON_ASSERT_OK_AND_ASSIGN(const ForkReply error,
                             DecodeForkReply(EncodeForkReply(FullReply())));
  EXPECT_EQ(error.status, FullReply().status);
  EXPECT_THAT(error.pids, ElementsAre(1, 4711, -1));
  TENON_ASSERT_OK_AND_ASSIGN(const ForkReply good,
                             DecodeForkReply(EncodeForkReply({})));
  EXPECT_THAT(good.status, IsOk());
  EXPECT_THAT(good.pids, IsEmpty());
}

TEST(ForkRequestTest, EveryShorterOrLongerMessageIsRefused) {
  const std::string request = EncodeForkRequest(FullRequest());
  for (size_t size = 0; size < request.size(); ++size) {
    EXPECT_THAT(DecodeForkRequest(absl::string_view(request).substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss))
        << size << " of " << request.size() << " bytes";
  }
  EXPECT_THAT(DecodeForkRequest(request + "x"),
              StatusIs(absl::StatusCode::kDataLoss));
  const std::string reply = EncodeForkReply(FullReply());
  for (size_t size = 0; size < reply.size(); ++size) {
    EXPECT_THAT(DecodeForkReply(absl::string_view(reply).substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss))
        << size << " of " << reply.size() << " bytes";
  }
  EXPECT_THAT(DecodeForkReply(reply + "x"),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ForkRequestFuzzTest, RequestsAreRefusedOrMeanThemselves) {
  Mutator mutator(20261122);
  int accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    const std::string bytes = mutator.Mutate(EncodeForkRequest(FullRequest()));
    const absl::StatusOr<ForkRequest> request = DecodeForkRequest(bytes);
    if (!request.ok()) {
      ASSERT_THAT(request, StatusIs(absl::StatusCode::kDataLoss));
      continue;
    }
    ++accepted;
    ASSERT_EQ(EncodeForkRequest(*request), bytes);
  }
  EXPECT_GT(accepted, 1000) << "the mutations hardly reach the last field";
  EXPECT_LT(accepted, 49'000) << "the mutations hardly break anything";
}

// Mutated bytes of an error never parse as a success.
TEST(ForkRequestFuzzTest, RepliesAreRefusedOrKeepTheirOutcome) {
  Mutator mutator(20261123);
  int accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    const std::string bytes = mutator.Mutate(EncodeForkReply(FullReply()));
    const absl::StatusOr<ForkReply> reply = DecodeForkReply(bytes);
    if (!reply.ok()) {
      ASSERT_THAT(reply, StatusIs(absl::StatusCode::kDataLoss));
      continue;
    }
    ++accepted;
    int32_t code = 0;
    std::memcpy(&code, bytes.data(), sizeof(code));
    ASSERT_EQ(reply->status.ok(), code == 0);
    const size_t pids = reply->pids.size() * sizeof(int32_t);
    if (pids > 0) {
      ASSERT_EQ(std::memcmp(bytes.data() + bytes.size() - pids,
                            reply->pids.data(), pids),
                0);
    }
  }
  EXPECT_GT(accepted, 1000) << "the mutations hardly reach the last field";
  EXPECT_LT(accepted, 49'000) << "the mutations hardly break anything";
}

}  // namespace
}  // namespace tenon::spawn
