// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/shm_name.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

using absl::StatusCode::kInvalidArgument;

const std::string kNul("a\0z", 3);
const std::string kBad[] = {"",    ".",    "..",   ".hidden", "a/b", "/a",
                            "a b", "a\nb", "a%b",  "a:b",     kNul,  "\xc3\xa4",
                            "a*",  "a~",   "../x", "a/../b"};

// A name in /dev/shm, removed on destruction.
class PlantedFile {
 public:
  explicit PlantedFile(const std::string& name) : path_("/" + name) {
    const UniqueFd fd(shm_open(path_.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600));
    EXPECT_TRUE(fd.valid()) << path_;
  }
  ~PlantedFile() { shm_unlink(path_.c_str()); }

 private:
  std::string path_;
};

TEST(CheckShmNameTest, TakesWhatTheContractAllows) {
  for (const std::string& name :
       {std::string("a"), std::string("Az09._-"), std::string("a..b"),
        std::string("-"), std::string("_."), std::string(200, 'x')}) {
    EXPECT_THAT(CheckShmName(name), IsOk()) << name;
  }
}

TEST(CheckShmNameTest, RefusesEverythingElse) {
  for (const std::string& name : kBad) {
    EXPECT_THAT(CheckShmName(name), StatusIs(kInvalidArgument)) << name;
    EXPECT_THAT(CheckShmPrefix(name), StatusIs(kInvalidArgument)) << name;
  }
  EXPECT_THAT(CheckShmName(std::string(201, 'x')), StatusIs(kInvalidArgument));
}

TEST(CheckShmNameTest, ShowsTheNameEscapedAndCut) {
  EXPECT_THAT(CheckShmName(kNul),
              StatusIs(kInvalidArgument, HasSubstr("name 'a\\x00z'")));
  const absl::Status huge = CheckShmName(std::string(1 << 20, 'x'));
  EXPECT_LT(huge.message().size(), 400u);
}

TEST(CheckShmPrefixTest, LeavesRoomForTheRandomPart) {
  EXPECT_THAT(CheckShmPrefix(std::string(160, 'x')), IsOk());
  EXPECT_THAT(CheckShmPrefix(std::string(161, 'x')),
              StatusIs(kInvalidArgument, HasSubstr("1 to 160")));
}

TEST(MakeShmNameTest, IsThePrefixAnd128BitsInHex) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string name, MakeShmName("camera.0"));
  EXPECT_THAT(name, MatchesRegex("camera\\.0-[0-9a-f]+"));
  EXPECT_EQ(name.size(), std::string("camera.0-").size() + 32);
  EXPECT_THAT(CheckShmName(name), IsOk());
}

TEST(MakeShmNameTest, LongestPrefixGivesAGoodName) {
  TENON_ASSERT_OK_AND_ASSIGN(const std::string name,
                             MakeShmName(std::string(160, 'x')));
  EXPECT_THAT(CheckShmName(name), IsOk());
}

TEST(MakeShmNameTest, NoTwoAreTheSame) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(std::string name, MakeShmName("x"));
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

TEST(MakeShmNameTest, RefusesBadPrefixes) {
  for (const std::string& prefix : kBad) {
    EXPECT_THAT(MakeShmName(prefix), StatusIs(kInvalidArgument)) << prefix;
  }
  EXPECT_THAT(MakeShmName(std::string(161, 'x')), StatusIs(kInvalidArgument));
}

TEST(ListShmNamesTest, FindsWhatBeginsWithThePrefixSorted) {
  const std::string prefix = UniqueTestPrefix();
  EXPECT_THAT(ListShmNames(prefix), IsOkAndHolds(IsEmpty()));
  const PlantedFile b(prefix + "-b");
  const PlantedFile a(prefix + "-a");
  const PlantedFile other("x" + prefix);
  EXPECT_THAT(ListShmNames(prefix),
              IsOkAndHolds(ElementsAre(prefix + "-a", prefix + "-b")));
}

TEST(ListShmNamesTest, LeavesNoDescriptorOpen) {
  const size_t before = CountOpenFds();
  EXPECT_THAT(ListShmNames("x"), IsOk());
  EXPECT_EQ(CountOpenFds(), before);
}

TEST(ListShmNamesTest, RefusesBadPrefixes) {
  for (const std::string& prefix : kBad) {
    EXPECT_THAT(ListShmNames(prefix), StatusIs(kInvalidArgument)) << prefix;
  }
}

TEST(RemoveShmNameTest, RemovesAndIsContentIfThereIsNone) {
  const std::string name = UniqueTestPrefix();
  const PlantedFile file(name);
  EXPECT_THAT(RemoveShmName(name), IsOk());
  EXPECT_THAT(ListShmNames(name), IsOkAndHolds(IsEmpty()));
  EXPECT_THAT(RemoveShmName(name), IsOk());
}

TEST(RemoveShmNameTest, RefusesBadNames) {
  for (const std::string& name : kBad) {
    EXPECT_THAT(RemoveShmName(name), StatusIs(kInvalidArgument)) << name;
  }
}

TEST(RemoveShmNameTest, AnotherUsersNameStays) {
  if (!CanBecomeAnotherUser()) GTEST_SKIP() << kNoOtherUser;
  const std::string name = UniqueTestPrefix();
  const PlantedFile file(name);
  struct stat dev_shm;
  ASSERT_EQ(stat("/dev/shm", &dev_shm), 0);
  if ((dev_shm.st_mode & S_ISVTX) == 0) {
    GTEST_SKIP() << "/dev/shm here lets anyone remove anything";
  }
  EXPECT_TRUE(PassesInChild([&] {
    ASSERT_TRUE(BecomeAnotherUser());
    EXPECT_THAT(RemoveShmName(name),
                StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(name)));
  }));
  EXPECT_THAT(ListShmNames(name), IsOkAndHolds(ElementsAre(name)));
}

}  // namespace
}  // namespace tenon
