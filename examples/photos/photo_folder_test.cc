// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/photo_folder.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class PhotoFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/photo_folder_test.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr) << strerror(errno);
    root_ = name;
  }

  void TearDown() override {
    // Entries that a test has locked must be removable.
    for (const std::string& path : locked_) chmod(path.c_str(), 0700);
    fs::remove_all(root_);
  }

  // Creates a file and its folders; returns its path.
  std::string AddFile(const std::string& name) {
    const fs::path path = fs::path(root_) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "bytes";
    return path.string();
  }

  void AddFolder(const std::string& name) {
    fs::create_directories(fs::path(root_) / name);
  }

  void Lock(const std::string& path, mode_t mode) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0) << strerror(errno);
    locked_.push_back(path);
  }

  // The paths, without the folder of the test.
  std::vector<std::string> Names(const PhotoFolder& folder) const {
    std::vector<std::string> names;
    for (const Photo& photo : folder.photos) {
      EXPECT_EQ(photo.path.substr(0, root_.size() + 1), root_ + "/");
      names.push_back(photo.path.substr(root_.size() + 1));
    }
    return names;
  }

  static std::vector<int> Labels(const PhotoFolder& folder) {
    std::vector<int> labels;
    for (const Photo& photo : folder.photos) labels.push_back(photo.label);
    return labels;
  }

  std::string root_;

 private:
  std::vector<std::string> locked_;
};

// ListPhotos() in a thread without root's privilege to ignore permissions: the
// kernel keeps capabilities for each thread.
absl::StatusOr<PhotoFolder> ListWithoutPrivilege(const std::string& path) {
  absl::StatusOr<PhotoFolder> result;
  std::thread([&] {
    __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct none[2] = {};
    ASSERT_EQ(syscall(SYS_capset, &header, none), 0) << strerror(errno);
    result = ListPhotos(path);
  }).join();
  return result;
}

TEST_F(PhotoFolderTest, ListsClassesAndPhotosInOrder) {
  // Created in another order than they are listed; "b c" sorts behind "b"
  // though "b c/" as text sorts before "b/".
  for (const char* name : {"b c/1.jpg", "z/9.jpg", "b/2.jpg", "z/10.jpg",
                           "b/1.jpg", "B/1.jpg", "z/a.jpg"}) {
    AddFile(name);
  }
  TENON_ASSERT_OK_AND_ASSIGN(const PhotoFolder folder, ListPhotos(root_));
  EXPECT_THAT(folder.classes, ElementsAre("B", "b", "b c", "z"));
  EXPECT_THAT(Names(folder),
              ElementsAre("B/1.jpg", "b/1.jpg", "b/2.jpg", "b c/1.jpg",
                          "z/10.jpg", "z/9.jpg", "z/a.jpg"));
  EXPECT_THAT(Labels(folder), ElementsAre(0, 1, 1, 2, 3, 3, 3));
}

TEST_F(PhotoFolderTest, TakesOnlyJpegFilesInAnyCase) {
  for (const char* name :
       {"a/1.jpg", "a/2.JPG", "a/3.jpeg", "a/4.JpEg", "a/5.png", "a/jpg",
        "a/6.jpg.txt", "a/7.jpgx", "a/.8.jpg", "a/9xjpg"}) {
    AddFile(name);
  }
  TENON_ASSERT_OK_AND_ASSIGN(const PhotoFolder folder, ListPhotos(root_));
  EXPECT_THAT(Names(folder),
              ElementsAre("a/1.jpg", "a/2.JPG", "a/3.jpeg", "a/4.JpEg"));
}

TEST_F(PhotoFolderTest, LooksOneFolderDeepAndIgnoresWhatIsHidden) {
  for (const char* name : {"a/1.jpg", "a/deeper/2.jpg", ".git/3.jpg",
                           "beside.jpg", "a/folder.jpg/4.jpg"}) {
    AddFile(name);
  }
  TENON_ASSERT_OK_AND_ASSIGN(const PhotoFolder folder, ListPhotos(root_));
  EXPECT_THAT(folder.classes, ElementsAre("a"));
  EXPECT_THAT(Names(folder), ElementsAre("a/1.jpg"));
}

TEST_F(PhotoFolderTest, AClassMayBeEmpty) {
  AddFile("b/1.jpg");
  AddFolder("a");
  TENON_ASSERT_OK_AND_ASSIGN(const PhotoFolder folder, ListPhotos(root_));
  EXPECT_THAT(folder.classes, ElementsAre("a", "b"));
  EXPECT_THAT(Labels(folder), ElementsAre(1));
}

TEST_F(PhotoFolderTest, FollowsSymbolicLinks) {
  AddFile("elsewhere/photo");
  AddFile(".hidden/2.jpg");
  AddFolder("a");
  fs::create_symlink("../elsewhere/photo", root_ + "/a/1.jpg");
  fs::create_symlink(".hidden", root_ + "/b");
  TENON_ASSERT_OK_AND_ASSIGN(const PhotoFolder folder, ListPhotos(root_));
  EXPECT_THAT(Names(folder), ElementsAre("a/1.jpg", "b/2.jpg"));
}

TEST_F(PhotoFolderTest, ALinkThatLeadsNowhereIsAnError) {
  AddFile("a/1.jpg");
  fs::create_symlink("missing.jpg", root_ + "/a/2.jpg");
  EXPECT_THAT(ListPhotos(root_), StatusIs(absl::StatusCode::kNotFound,
                                          HasSubstr(root_ + "/a/2.jpg")));
}

TEST_F(PhotoFolderTest, ASlashAtTheEndOfThePathMakesNoDifference) {
  AddFile("a/1.jpg");
  TENON_ASSERT_OK_AND_ASSIGN(const PhotoFolder folder, ListPhotos(root_ + "/"));
  EXPECT_THAT(Names(folder), ElementsAre("a/1.jpg"));
}

TEST_F(PhotoFolderTest, ReadsManyEntries) {
  // More than one getdents64() returns, in an order that the kernel chooses.
  std::vector<std::string> expected;
  for (int i = 1000; i < 3000; ++i) {
    expected.push_back("a/" + std::to_string(i) + ".jpg");
    AddFile(expected.back());
  }
  TENON_ASSERT_OK_AND_ASSIGN(const PhotoFolder folder, ListPhotos(root_));
  EXPECT_EQ(Names(folder), expected);
}

TEST_F(PhotoFolderTest, AMissingFolderIsNotFound) {
  EXPECT_THAT(ListPhotos(root_ + "/none"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(root_ + "/none"),
                             HasSubstr("No such file or directory"),
                             Not(HasSubstr("\n")))));
  EXPECT_THAT(ListPhotos(""), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(PhotoFolderTest, AFileIsNotAFolder) {
  const std::string file = AddFile("photo.jpg");
  EXPECT_THAT(ListPhotos(file), StatusIs(absl::StatusCode::kInvalidArgument,
                                         "'" + file + "' is not a folder"));
}

TEST_F(PhotoFolderTest, NoPhotographsSaysWhatThereIsInstead) {
  for (const char* name : {"a/1.png", "a/2.png", "b/3.txt", "readme",
                           "lost.jpg", ".hidden/4.jpg"}) {
    AddFile(name);
  }
  EXPECT_THAT(ListPhotos(root_),
              StatusIs(absl::StatusCode::kNotFound,
                       "no photographs (*.jpg, *.jpeg) in the class folders "
                       "of '" +
                           root_ +
                           "': 2 folders, 4 files of other kinds, 1 "
                           "photographs outside a class folder"));
}

TEST_F(PhotoFolderTest, AnEmptyFolderHasNoPhotographs) {
  EXPECT_THAT(ListPhotos(root_),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("0 folders, 0 files of other kinds")));
}

TEST_F(PhotoFolderTest, AnUnreadableFolderIsDenied) {
  AddFile("a/1.jpg");
  ASSERT_THAT(ListWithoutPrivilege(root_), IsOk());
  Lock(root_, 0);
  EXPECT_THAT(ListWithoutPrivilege(root_),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(root_)));
}

TEST_F(PhotoFolderTest, AnUnreadableClassIsDenied) {
  AddFile("a/1.jpg");
  AddFile("b/2.jpg");
  Lock(root_ + "/b", 0300);
  EXPECT_THAT(
      ListWithoutPrivilege(root_),
      StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr(root_ + "/b")));
}

TEST_F(PhotoFolderTest, LeaksNoDescriptors) {
  const auto count = [] {
    return std::distance(fs::directory_iterator("/proc/self/fd"),
                         fs::directory_iterator());
  };
  AddFile("a/1.jpg");
  fs::create_symlink("missing.jpg", root_ + "/b");
  const auto before = count();
  EXPECT_THAT(ListPhotos(root_), Not(IsOk()));
  EXPECT_THAT(ListPhotos(root_ + "/a/1.jpg"), Not(IsOk()));
  EXPECT_EQ(count(), before);
}

}  // namespace
}  // namespace tenon
