// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The main example from outside: its output, its exit codes, its leftovers.

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/examples/photos/test_jpeg.h"
#include "tenon/examples/testing/program.h"
#include "tenon/shm/segment/dead_names_testing.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

constexpr char kBinary[] = "examples/photo_epoch";

void WriteBytes(const fs::path& path, const std::vector<uint8_t>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

// A folder with two classes of three photographs each.
class PhotoEpochTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string path = absl::StrCat(::testing::TempDir(), "/photos_XXXXXX");
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    dir_ = path;
    int width = 300;
    for (const char* name : {"cat/a.jpg", "cat/b.jpg", "cat/c.JPEG",
                             "dog/a.jpg", "dog/b.jpg", "dog/c.jpg"}) {
      fs::create_directories((dir_ / name).parent_path());
      WriteBytes(dir_ / name, MakeTestJpeg(MakeTestImage(width, 240),
                                           TestJpegKind::kBaseline));
      width += 50;
    }
  }
  void TearDown() override { fs::remove_all(dir_); }

  // A run over dir_, with additional arguments.
  std::vector<std::string> Arguments(std::vector<std::string> more) const {
    std::vector<std::string> all = {kBinary,
                                    absl::StrCat("--images=", dir_.string()),
                                    "--image_size=32", "--batch_size=4"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  // Checks that a program that has ended has left nothing.
  static void ExpectNothingLeft(const Program& program) {
    EXPECT_TRUE(program.GroupIsGone());
    const auto names = [&] {
      return DeadNames(absl::StrCat("tenon-loader-", program.pid(), "-"));
    };
    // Those of a program with the same pid in another sandbox come and go.
    EXPECT_TRUE(Becomes([&] { return names().empty(); }))
        << testing::PrintToString(names());
  }

  // Runs it to its end.
  struct Outcome {
    ExitStatus status;
    std::string output;
  };
  static Outcome Run(const std::vector<std::string>& arguments) {
    Program program(arguments);
    const ExitStatus status = program.Wait();
    ExpectNothingLeft(program);
    return {status, program.output()};
  }

  // The 16 digits in the last line.
  static std::string ChecksumOf(const Outcome& outcome) {
    constexpr absl::string_view kLabel = "checksum: ";
    const size_t label = outcome.output.rfind(std::string(kLabel));
    const size_t digits = label + kLabel.size();
    if (label == std::string::npos || outcome.output.size() != digits + 17) {
      return absl::StrCat("no checksum in:\n", outcome.output);
    }
    return outcome.output.substr(digits, 16);
  }

  fs::path dir_;
};

TEST_F(PhotoEpochTest, PrintsASummaryThatEndsWithTheChecksum) {
  const Outcome outcome =
      Run(Arguments({"--workers=2", "--samples=50", "--verify"}));
  EXPECT_TRUE(outcome.status.success()) << outcome.output;
  for (const char* line :
       {"6 photographs in 2 classes", "images:              50\n",
        "batches:             13\n", "bytes:               614800\n",
        "wall time:", "images/s:", "time to first batch:", "worker 0:",
        "worker 1:", "verified: all 13 batches are bit-identical"}) {
    EXPECT_THAT(outcome.output, HasSubstr(line));
  }
  EXPECT_THAT(ChecksumOf(outcome), MatchesRegex("[0-9a-f]+"));
}

TEST_F(PhotoEpochTest, TheChecksumDependsOnTheSeedAndNotOnTheWorkers) {
  const std::vector<std::string> common = {"--samples=60", "--epochs=2"};
  const auto checksum = [&](std::vector<std::string> more) {
    more.insert(more.end(), common.begin(), common.end());
    return ChecksumOf(Run(Arguments(more)));
  };
  const std::string with_none = checksum({"--workers=0"});
  EXPECT_THAT(with_none, MatchesRegex("[0-9a-f]+"));
  for (const char* strategy : {"file_descriptor", "file_system"}) {
    for (const char* workers : {"1", "2", "5", "40", ""}) {
      EXPECT_EQ(checksum({absl::StrCat("--workers=", workers),
                          absl::StrCat("--strategy=", strategy)}),
                with_none);
    }
  }
  EXPECT_NE(checksum({"--workers=2", "--seed=1"}), with_none);
}

// As torchrun would start them.
TEST_F(PhotoEpochTest, RanksTakeTheBatchesInTurn) {
  std::vector<std::string> checksums;
  for (const char* rank : {"RANK=0", "RANK=1"}) {
    std::vector<std::string> arguments = {"/usr/bin/env", rank, "WORLD_SIZE=2"};
    for (std::string& argument : Arguments({"--samples=60", "--verify"})) {
      arguments.push_back(std::move(argument));
    }
    const Outcome outcome = Run(arguments);
    EXPECT_TRUE(outcome.status.success()) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr("images:              30\n"));
    checksums.push_back(ChecksumOf(outcome));
  }
  EXPECT_NE(checksums[0], checksums[1]);
}

TEST_F(PhotoEpochTest, BadFoldersAndFlagsAreOneLineAndCode2) {
  fs::create_directories(dir_ / "none/class");
  const std::string images = absl::StrCat("--images=", dir_.string());
  for (const std::string& bad :
       {images + "/missing", images + "/none", images + "/cat/a.jpg",
        std::string("--workers=-1"), std::string("--batch_size=0"),
        std::string("--samples=0"), std::string("--epochs=0"),
        std::string("--image_size=0"), std::string("--strategy=pigeon"),
        std::string("--on_bad_image=cry")}) {
    const Outcome outcome = Run(Arguments({bad}));
    EXPECT_EQ(outcome.status.exit_code, 2) << bad << "\n" << outcome.output;
    EXPECT_THAT(outcome.output, MatchesRegex("(.*photographs in.*\n)?"
                                             "photo_epoch: [^\n]+\n"))
        << bad;
  }
}

TEST_F(PhotoEpochTest, AFlagOutOfRangeIsNamedWithItsValueAndLimits) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--workers=-1", "--workers must be 0 to 512, not -1"},
      {"--workers=513", "--workers must be 0 to 512, not 513"},
      {"--batch_size=0", "--batch_size must be 1 to 65536, not 0"},
      {"--batch_size=65537", "--batch_size must be 1 to 65536, not 65537"},
      {"--samples=0", "--samples must be 1 to 1099511627776, not 0"},
      {"--samples=1099511627777",
       "--samples must be 1 to 1099511627776, not 1099511627777"},
      {"--epochs=-2", "--epochs must be 1 to 1099511627776, not -2"},
      {"--image_size=4097", "--image_size must be 1 to 4096, not 4097"}};
  for (const auto& [flag, error] : cases) {
    const Outcome outcome = Run(Arguments({flag}));
    EXPECT_EQ(outcome.status.exit_code, 2) << flag;
    EXPECT_EQ(outcome.output, absl::StrCat("photo_epoch: ", error, "\n"));
  }
}

TEST_F(PhotoEpochTest, AnUnreadableFolder) {
  if (geteuid() == 0) GTEST_SKIP() << "root reads everything";
  chmod((dir_ / "cat").c_str(), 0);
  const Outcome outcome = Run(Arguments({}));
  chmod((dir_ / "cat").c_str(), 0700);
  EXPECT_EQ(outcome.status.exit_code, 2);
  EXPECT_THAT(outcome.output, HasSubstr("cat"));
}

class BadImageTest : public PhotoEpochTest,
                     public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    PhotoEpochTest::SetUp();
    const auto good =
        MakeTestJpeg(MakeTestImage(400, 300), TestJpegKind::kBaseline);
    WriteBytes(dir_ / "cat/truncated.jpg",
               {good.begin(), good.begin() + std::ssize(good) / 2});
    WriteBytes(dir_ / "dog/text.jpg", {'n', 'o', ' ', 'j', 'p', 'e', 'g'});
    WriteBytes(dir_ / "dog/empty.jpg", {});
  }
};

INSTANTIATE_TEST_SUITE_P(Workers, BadImageTest, ::testing::Values("0", "2"));

TEST_P(BadImageTest, AreNamedCountedAndSkipped) {
  const Outcome outcome = Run(Arguments(
      {absl::StrCat("--workers=", GetParam()), "--samples=90", "--verify"}));
  EXPECT_TRUE(outcome.status.success()) << outcome.output;
  for (const char* file :
       {"cat/truncated.jpg", "dog/text.jpg", "dog/empty.jpg"}) {
    EXPECT_THAT(outcome.output, HasSubstr(file));
  }
  EXPECT_THAT(outcome.output,
              HasSubstr("skipped:             30 samples of 3"));
  EXPECT_THAT(outcome.output, HasSubstr("images:              60\n"));
}

TEST_P(BadImageTest, AreFatalIfAsked) {
  const Outcome outcome =
      Run(Arguments({absl::StrCat("--workers=", GetParam()), "--samples=90",
                     "--on_bad_image=fail"}));
  EXPECT_EQ(outcome.status.exit_code, 1);
  EXPECT_THAT(outcome.output,
              ContainsRegex("photo_epoch: .*(truncated|text|empty)\\.jpg"));
  EXPECT_THAT(outcome.output, Not(HasSubstr("checksum")));
}

class KillTest : public PhotoEpochTest,
                 public ::testing::WithParamInterface<const char*> {
 protected:
  // A run that would last for days, and soon prints an epoch.
  std::vector<std::string> Endless() const {
    return Arguments({"--workers=2", "--samples=40", "--epochs=100000000",
                      absl::StrCat("--strategy=", GetParam())});
  }
};

INSTANTIATE_TEST_SUITE_P(Strategies, KillTest,
                         ::testing::Values("file_descriptor", "file_system"));

TEST_P(KillTest, AKilledWorkerEndsTheRunAndIsNamed) {
  Program program(Endless());
  ASSERT_TRUE(program.WaitForOutput("epoch 1"));
  const std::vector<pid_t> workers = program.Workers();
  ASSERT_EQ(workers.size(), 2u);
  kill(workers[1], SIGKILL);
  EXPECT_EQ(program.Wait().exit_code, 1);
  EXPECT_THAT(
      program.output(),
      AllOf(HasSubstr("worker"), HasSubstr(absl::StrCat("pid ", workers[1])),
            HasSubstr("SIGKILL")));
  ExpectNothingLeft(program);
}

TEST_P(KillTest, CtrlCEndsEverything) {
  Program program(Endless());
  ASSERT_TRUE(program.WaitForOutput("epoch 1"));
  program.SignalGroup(SIGINT);
  EXPECT_EQ(program.Wait().exit_code, 128 + SIGINT) << program.output();
  ExpectNothingLeft(program);
}

TEST_P(KillTest, SigtermEndsEverything) {
  Program program(Endless());
  ASSERT_TRUE(program.WaitForOutput("epoch 1"));
  program.Signal(SIGTERM);
  EXPECT_EQ(program.Wait().exit_code, 128 + SIGTERM) << program.output();
  ExpectNothingLeft(program);
}

// The workers notice by themselves: they hold the pipe that is read to its end.
TEST_P(KillTest, NothingIsLeftWhenTheConsumerIsKilled) {
  Program program(Endless());
  ASSERT_TRUE(program.WaitForOutput("epoch 1"));
  program.Signal(SIGKILL);
  EXPECT_EQ(program.Wait().signal, SIGKILL);
  ExpectNothingLeft(program);
}

}  // namespace
}  // namespace tenon
