// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The behaviour of every segment, whatever its strategy and kind. Creation:
// segment_create_test.cc. Attacks by peers: segment_trust_test.cc. Limits:
// segment_limits_test.cc.

#include "tenon/shm/segment/segment.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment_testing.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kFailedPrecondition = absl::StatusCode::kFailedPrecondition;

static_assert(!std::is_copy_constructible_v<Segment>);
static_assert(!std::is_copy_assignable_v<Segment>);
static_assert(std::is_nothrow_move_constructible_v<Segment>);
static_assert(std::is_nothrow_move_assignable_v<Segment>);

TEST_P(SegmentTest, IsZeroedReservedAndOfTheSizeAskedFor) {
  for (size_t size :
       {size_t{1}, size_t{4095}, size_t{4096}, size_t{4097}, size_t{5000001}}) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(size));
    EXPECT_EQ(made.segment.size_bytes(), size);
    EXPECT_EQ(made.mapping.size_bytes(), size);
    struct stat file;
    ASSERT_EQ(fstat(made.segment.fd(), &file), 0);
    EXPECT_EQ(file.st_size, static_cast<off_t>(size));
    EXPECT_GE(static_cast<size_t>(file.st_blocks) * 512, size);
    EXPECT_TRUE(AllZero(made.mapping));  // Last: reading allocates pages.
  }
}

TEST_P(SegmentTest, KnowsWhatItIs) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(made.segment));
  for (const Segment* segment : {&made.segment, &received}) {
    EXPECT_EQ(segment->size_bytes(), kSize);
    EXPECT_EQ(segment->kind(), kind());
    EXPECT_EQ(segment->strategy(), strategy());
    EXPECT_EQ(fcntl(segment->fd(), F_GETFD), FD_CLOEXEC);
  }
  EXPECT_EQ(made.segment.name(), received.name());
}

TEST_P(SegmentTest, HasANameOnlyInTheFileSystem) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  if (has_name()) {
    EXPECT_TRUE(absl::StartsWith(made.segment.name(), prefix_ + "-"));
    EXPECT_THAT(ListShmNames(prefix_),
                IsOkAndHolds(ElementsAre(made.segment.name())));
  } else {
    EXPECT_EQ(made.segment.name(), "");
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  }
}

TEST_P(SegmentTest, ReceiverSeesWhatIsWrittenBeforeAndAfter) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  Fill(made.mapping, "before");
  TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(made.segment));
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             received.MapReadOnly());
  EXPECT_EQ(reader.size_bytes(), kSize);
  EXPECT_EQ(Text(reader, 6), "before");
  Fill(made.mapping, "after!");
  EXPECT_EQ(Text(reader, 6), "after!");
}

TEST_P(SegmentTest, OwnReadOnlyMappingSeesItToo) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             made.segment.MapReadOnly());
  Fill(made.mapping, "text");
  EXPECT_EQ(Text(reader, 4), "text");
}

TEST_P(SegmentTest, ForkedProcessThatReceivesItSeesIt) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  Fill(made.mapping, "hello child");
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(made.segment));
    TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                               received.MapReadOnly());
    EXPECT_EQ(Text(reader, 11), "hello child");
    if (owner_written()) return;
    TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping writer,
                               received.MapWritable());
    Fill(writer, "hello world");
  }));
  if (owner_written()) return;
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             made.segment.MapReadOnly());
  EXPECT_EQ(Text(reader, 11), "hello world");
}

TEST_P(SegmentTest, AnotherProgramSeesIt) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  Fill(made.mapping, "hello cat");
  const std::string path =
      has_name() ? absl::StrCat("/dev/shm/", made.segment.name())
                 : absl::StrCat("/proc/", getpid(), "/fd/", made.segment.fd());
  FILE* cat = popen(absl::StrCat("cat ", path).c_str(), "re");
  ASSERT_NE(cat, nullptr);
  std::string text(kSize + 1, '?');
  EXPECT_EQ(std::fread(text.data(), 1, text.size(), cat), kSize);
  EXPECT_EQ(text.substr(0, 10), std::string("hello cat\0", 10));
  EXPECT_EQ(pclose(cat), 0);
}

TEST_P(SegmentTest, ReceiverWritesOnlyIfAllMay) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(made.segment));
  if (owner_written()) {
    for (const Segment* segment : {&made.segment, &received}) {
      EXPECT_THAT(segment->MapWritable(),
                  StatusIs(kFailedPrecondition, HasSubstr("owner-written")));
    }
    return;
  }
  TENON_ASSERT_OK_AND_ASSIGN(const WritableMapping writer,
                             received.MapWritable());
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             made.segment.MapReadOnly());
  Fill(writer, "from peer");
  EXPECT_EQ(Text(reader, 9), "from peer");
}

TEST_P(SegmentTest, MappingOutlivesItsSegment) {
  std::optional<ReadOnlyMapping> reader;
  std::optional<WritableMapping> writer;
  {
    TENON_ASSERT_OK_AND_ASSIGN(auto made, Create(kSize));
    TENON_ASSERT_OK_AND_ASSIGN(reader, made.segment.MapReadOnly());
    writer = std::move(made.mapping);
  }
  Fill(*writer, "still here");
  EXPECT_EQ(Text(*reader, 10), "still here");
}

TEST_P(SegmentTest, SegmentOutlivesItsMapping) {
  TENON_ASSERT_OK_AND_ASSIGN(auto made, Create(kSize));
  Fill(made.mapping, "kept");
  made.mapping = WritableMapping();
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             made.segment.MapReadOnly());
  EXPECT_EQ(Text(reader, 4), "kept");
}

TEST_P(SegmentTest, ReceiverOutlivesTheCreator) {
  std::optional<Segment> received;
  std::string name;
  {
    TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
    Fill(made.mapping, "legacy");
    name = made.segment.name();
    TENON_ASSERT_OK_AND_ASSIGN(received, Receive(made.segment));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             received->MapReadOnly());
  EXPECT_EQ(Text(reader, 6), "legacy");
  if (!has_name()) return;
  EXPECT_THAT(Segment::Open(name, kind()),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(name)));
}

TEST_P(SegmentTest, ReceiverDoesNotOwnTheName) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  {
    TENON_ASSERT_OK_AND_ASSIGN(Segment received, Receive(made.segment));
    EXPECT_THAT(received.Unlink(), IsOk());
  }
  EXPECT_THAT(Receive(made.segment), IsOk());
}

TEST_P(SegmentTest, UnlinkTakesTheNameAndNothingElse) {
  TENON_ASSERT_OK_AND_ASSIGN(auto made, Create(kSize));
  TENON_ASSERT_OK_AND_ASSIGN(const Segment received, Receive(made.segment));
  const std::string name = made.segment.name();
  EXPECT_THAT(made.segment.Unlink(), IsOk());
  EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(made.segment.Unlink(), IsOk());
  EXPECT_EQ(made.segment.name(), name);
  Fill(made.mapping, "lives");
  TENON_ASSERT_OK_AND_ASSIGN(const ReadOnlyMapping reader,
                             received.MapReadOnly());
  EXPECT_EQ(Text(reader, 5), "lives");
  EXPECT_THAT(made.segment.MapReadOnly(), IsOk());
}

TEST_P(SegmentTest, NameThatSomebodyElseRemovedIsNoError) {
  TENON_ASSERT_OK_AND_ASSIGN(auto made, Create(kSize));
  if (has_name()) {
    EXPECT_THAT(RemoveShmName(made.segment.name()), IsOk());
  }
  EXPECT_THAT(made.segment.Unlink(), IsOk());
}

TEST_P(SegmentTest, MoveConstructionKeepsEverythingInOneOwner) {
  TENON_ASSERT_OK_AND_ASSIGN(auto made, Create(kSize));
  const int fd = made.segment.fd();
  const std::string name = made.segment.name();
  {
    Segment moved(std::move(made.segment));
    EXPECT_EQ(moved.fd(), fd);
    EXPECT_EQ(moved.name(), name);
    EXPECT_EQ(moved.size_bytes(), kSize);
    EXPECT_EQ(moved.kind(), kind());
    EXPECT_EQ(moved.strategy(), strategy());
    EXPECT_THAT(moved.MapReadOnly(), IsOk());
  }
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(IsEmpty()));
}

TEST_P(SegmentTest, AssignmentLetsGoOfWhatWasThereAtOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(auto kept, Create(kSize));
  TENON_ASSERT_OK_AND_ASSIGN(auto replaced, Create(2 * kSize));
  const int kept_fd = kept.segment.fd();
  const int replaced_fd = replaced.segment.fd();
  const std::string kept_name = kept.segment.name();
  replaced.segment = std::move(kept.segment);
  EXPECT_EQ(replaced.segment.fd(), kept_fd);
  EXPECT_EQ(replaced.segment.size_bytes(), kSize);
  EXPECT_EQ(fcntl(replaced_fd, F_GETFD), -1);
  if (has_name()) {
    EXPECT_THAT(ListShmNames(prefix_), IsOkAndHolds(ElementsAre(kept_name)));
  }
  // A moved-from segment can be assigned to.
  TENON_ASSERT_OK_AND_ASSIGN(auto third, Create(kSize));
  kept.segment = std::move(third.segment);
  EXPECT_THAT(kept.segment.MapReadOnly(), IsOk());
}

TEST_P(SegmentTest, SelfMoveChangesNothing) {
  TENON_ASSERT_OK_AND_ASSIGN(auto made, Create(kSize));
  Segment& same = made.segment;
  made.segment = std::move(same);
  EXPECT_EQ(made.segment.size_bytes(), kSize);
  EXPECT_THAT(Receive(made.segment), IsOk());
}

TEST_P(SegmentTest, InertInAForkedChild) {
  TENON_ASSERT_OK_AND_ASSIGN(auto made, Create(kSize));
  EXPECT_TRUE(PassesInChild([&] {
    EXPECT_THAT(made.segment.MapReadOnly(),
                StatusIs(kFailedPrecondition, HasSubstr("fork")));
    EXPECT_THAT(made.segment.MapWritable(),
                StatusIs(kFailedPrecondition, HasSubstr("fork")));
    EXPECT_THAT(made.segment.Unlink(),
                StatusIs(kFailedPrecondition, HasSubstr("fork")));
    const int fd = made.segment.fd();
    { const Segment destroyed(std::move(made.segment)); }
    EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  }));
  EXPECT_THAT(Receive(made.segment), IsOk());
  EXPECT_THAT(made.segment.MapReadOnly(), IsOk());
}

TEST_P(SegmentTest, AssignmentInAForkedChildLeavesTheParentsName) {
  TENON_ASSERT_OK_AND_ASSIGN(auto made, Create(kSize));
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(auto own, Create(kSize));
    made.segment = std::move(own.segment);
    EXPECT_THAT(made.segment.MapReadOnly(), IsOk());
    EXPECT_THAT(made.segment.Unlink(), IsOk());
  }));
  EXPECT_THAT(Receive(made.segment), IsOk());
}

TEST_P(SegmentTest, ForkedChildMakesItsOwn) {
  EXPECT_TRUE(PassesInChild([&] {
    TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
    EXPECT_THAT(made.segment.MapReadOnly(), IsOk());
  }));
}

TEST_P(SegmentTest, ThreadsMayMapAtOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto made, Create(kSize));
  Fill(made.mapping, "shared");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j) {
        absl::StatusOr<ReadOnlyMapping> reader = made.segment.MapReadOnly();
        ASSERT_THAT(reader, IsOk());
        EXPECT_EQ(Text(*reader, 6), "shared");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(All, SegmentTest, AllSegmentCases(), SegmentCaseName);

}  // namespace
}  // namespace tenon
