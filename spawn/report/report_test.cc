// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/report.h"

#include <unistd.h>

#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/testing/mutate_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;

absl::Status Example() {
  return absl::NotFoundError(std::string("no image \0 at 'ü'", 18));
}

Report Full() { return {Example(), 123'456'789'012, "in Decode()"}; }

TEST(ReportTest, TimeAndStackTravel) {
  TENON_ASSERT_OK_AND_ASSIGN(const Report decoded,
                             DecodeReport(EncodeReport(Full())));
  EXPECT_EQ(decoded.status, Example());
  EXPECT_EQ(decoded.time_ns, 123'456'789'012);
  EXPECT_EQ(decoded.stack, "in Decode()");
}

TEST(ReportTest, EveryCodeTravels) {
  EXPECT_THAT(DecodeReport(EncodeReport({absl::OkStatus()}))->status, IsOk());
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code),
                              Example().message());
    TENON_ASSERT_OK_AND_ASSIGN(const Report decoded,
                               DecodeReport(EncodeReport({status})));
    EXPECT_EQ(decoded.status, status);
  }
}

TEST(ReportTest, LongMessageIsCutWithAMark) {
  const std::string message(200'000, 'x');
  const std::string bytes = EncodeReport({absl::InternalError(message)});
  EXPECT_LE(bytes.size(), Channel::kMaxBytes);
  TENON_ASSERT_OK_AND_ASSIGN(const Report decoded, DecodeReport(bytes));
  const absl::string_view got = decoded.status.message();
  const size_t kept = got.find(" [cut: ");
  ASSERT_NE(kept, absl::string_view::npos);
  EXPECT_GT(kept, Channel::kMaxBytes - 10'000);
  EXPECT_EQ(got.substr(kept),
            " [cut: " + std::to_string(message.size() - kept) + " bytes more]");
}

TEST(ReportTest, LongestMessageThatFitsIsNotCut) {
  const std::string message(57'088, 'x');
  EXPECT_EQ(DecodeReport(EncodeReport({absl::InternalError(message)}))
                ->status.message(),
            message);
}

TEST(ReportTest, EveryShorterOrLongerReportIsRefused) {
  const std::string whole = EncodeReport(Full());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(DecodeReport(absl::string_view(whole).substr(0, size)),
                StatusIs(absl::StatusCode::kDataLoss))
        << size << " of " << whole.size() << " bytes";
  }
  EXPECT_THAT(DecodeReport(whole + "x"), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ReportTest, CodesThatDoNotExistAreRefused) {
  for (const int code : {-1, 17, 1 << 30}) {
    std::string bytes = EncodeReport(Full());
    bytes.replace(4, sizeof(code), reinterpret_cast<const char*>(&code),
                  sizeof(code));
    EXPECT_THAT(DecodeReport(bytes),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("status code " + std::to_string(code))));
  }
}

TEST(ReportTest, OkWithAMessageIsRefused) {
  std::string bytes = EncodeReport(Full());
  bytes.replace(4, 4, 4, '\0');
  EXPECT_THAT(DecodeReport(bytes),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("status OK with a message")));
}

TEST(ReportFuzzTest, AnythingIsRefusedOrMeansItself) {
  Mutator mutator(20260102);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::string bytes = mutator.Mutate(EncodeReport(Full()));
    const absl::StatusOr<Report> report = DecodeReport(bytes);
    if (!report.ok()) {
      ASSERT_THAT(report, StatusIs(absl::StatusCode::kDataLoss));
      continue;
    }
    ++accepted;
    ASSERT_EQ(EncodeReport(*report), bytes);
  }
  EXPECT_GT(accepted, 1000) << "the mutations hardly reach the last field";
  EXPECT_LT(accepted, 199'000) << "the mutations hardly break anything";
}

// The channel between a parent and its child.
class ReceiveReportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
    parent_ = std::move(ends.first);
    child_ = std::move(ends.second);
  }

  void ChildSends(absl::string_view bytes) {
    EXPECT_THAT(child_->Send(bytes, {}, Deadline::Passed()), IsOk());
  }

  std::optional<Channel> parent_;
  std::optional<Channel> child_;
};

TEST_F(ReceiveReportTest, OutlivesItsSender) {
  EXPECT_THAT(SendReport(*child_, {Example()}), IsOk());
  child_.reset();
  TENON_ASSERT_OK_AND_ASSIGN(const auto report, ReceiveReport(*parent_));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->status, Example());
}

TEST_F(ReceiveReportTest, NoReport) {
  child_.reset();
  TENON_ASSERT_OK_AND_ASSIGN(const auto report, ReceiveReport(*parent_));
  EXPECT_FALSE(report.has_value());
}

TEST_F(ReceiveReportTest, ChannelThatIsStillOpenDoesNotBlock) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto none, ReceiveReport(*parent_));
  EXPECT_FALSE(none.has_value());
  EXPECT_THAT(SendReport(*child_, {absl::OkStatus()}), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto report, ReceiveReport(*parent_));
  ASSERT_TRUE(report.has_value());
  EXPECT_THAT(report->status, IsOk());
}

TEST_F(ReceiveReportTest, TwoMessagesAreNoReport) {
  EXPECT_THAT(SendReport(*child_, {absl::OkStatus()}), IsOk());
  ChildSends("and another thing");
  EXPECT_THAT(ReceiveReport(*parent_), StatusIs(absl::StatusCode::kDataLoss,
                                                HasSubstr("more than one")));
}

TEST_F(ReceiveReportTest, OneThatCameEarlyIsKept) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto none, PollReport(*parent_));
  EXPECT_FALSE(none.has_value());
  EXPECT_THAT(SendReport(*child_, {Example()}), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const std::optional<Report> early,
                             PollReport(*parent_));
  ASSERT_TRUE(early.has_value());
  EXPECT_EQ(early->status, Example());
  TENON_ASSERT_OK_AND_ASSIGN(const auto report, ReceiveReport(*parent_, early));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->status, Example());
  // A second one is as malformed as if both were read at the end.
  EXPECT_THAT(SendReport(*child_, {Example()}), IsOk());
  EXPECT_THAT(ReceiveReport(*parent_, early),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("more than one message")));
}

TEST_F(ReceiveReportTest, DescriptorsAreNoReport) {
  const int fd = STDIN_FILENO;
  EXPECT_THAT(child_->Send(EncodeReport({absl::OkStatus()}), {&fd, 1},
                           Deadline::Passed()),
              IsOk());
  EXPECT_THAT(ReceiveReport(*parent_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("descriptors")));
}

TEST_F(ReceiveReportTest, GarbageIsNoReport) {
  ChildSends("garbage");
  EXPECT_THAT(ReceiveReport(*parent_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("magic")));
}

TEST_F(ReceiveReportTest, SendingGivesUpWhenTheParentIsGone) {
  parent_.reset();
  EXPECT_THAT(SendReport(*child_, {Example()}),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tenon::spawn
