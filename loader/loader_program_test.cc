// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Workers that are another program, which loads a plugin with the dataset.

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kWorkerProgram[] = "loader/tenon_loader_worker";

std::string TestingPath(absl::string_view file) {
  return absl::StrCat("loader/testing/", file);
}

WorkerProgram ProgramWith(absl::string_view plugin) {
  return {.program = kWorkerProgram, .plugin = TestingPath(plugin)};
}

LoaderOptions OptionsOfPlugin(
    int workers = 2, absl::string_view plugin = "libtest_datasets_plugin.so") {
  return {.batch_size = 8,
          .workers = workers,
          .worker_program = ProgramWith(plugin),
          .seed = 7};
}

class LoaderProgramTest : public ::testing::Test {
 protected:
  // What a test has made is gone when it ends.
  void SetUp() override { fds_before_ = CountOpenFds(); }
  void TearDown() override {
    EXPECT_EQ(CountOpenFds(), fds_before_);
    EXPECT_TRUE(Becomes([] { return DeadNamesOf(getpid()).empty(); }));
  }

 private:
  size_t fds_before_ = 0;
};

TEST_F(LoaderProgramTest, BatchesAreThoseOfTheConsumersOwnDataset) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto own,
      Loader::Create<Numbers>({.batch_size = 8, .shuffle = true, .seed = 7},
                              int64_t{100}));
  const auto expected = *RunEpoch(*own, 3);
  for (const SharingStrategy strategy :
       {SharingStrategy::kFileDescriptor, SharingStrategy::kFileSystem}) {
    for (const int workers : {1, 3, kAuto}) {
      LoaderOptions options = OptionsOfPlugin(workers);
      options.shuffle = true;
      options.strategy = strategy;
      TENON_ASSERT_OK_AND_ASSIGN(
          auto loader, Loader::Create("Numbers", options, int64_t{100}));
      EXPECT_EQ(loader->samples(), 100);
      EXPECT_EQ(loader->dataset().size(), 100);
      EXPECT_EQ(loader->dataset().spec().ToString(),
                Numbers(100).spec().ToString());
      EXPECT_THAT(RunEpoch(*loader, 3), IsOkAndHolds(expected));
      // By type, it is the program's dataset as well.
      TENON_ASSERT_OK_AND_ASSIGN(loader, Loader::Create<Numbers>(options, 100));
      EXPECT_THAT(RunEpoch(*loader, 3), IsOkAndHolds(expected));
    }
  }
}

TEST_F(LoaderProgramTest, SoAreThoseOfAnIterableDataset) {
  const std::vector<int64_t> sizes = {20, 5, 13};
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto own,
      Loader::Create<Streams>({.batch_size = 8, .seed = 7}, sizes));
  const auto expected = *RunEpoch(*own, 1);
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader, Loader::Create("Streams", OptionsOfPlugin(), sizes));
  EXPECT_THAT(RunEpoch(*loader, 1), IsOkAndHolds(expected));
  EXPECT_EQ(dynamic_cast<const IterableDataset&>(loader->dataset()).shards(),
            3);
}

TEST_F(LoaderProgramTest, ADatasetIsWaitedForAsLongAsTheTimeout) {
  LoaderOptions options = OptionsOfPlugin(1);
  options.timeout = absl::Milliseconds(300);
  EXPECT_THAT(
      Loader::Create("SlowToMake", options, int64_t{100'000}),
      StatusIs(StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("entry 'tenon.loader.describe', pid "),
                     HasSubstr("has not made dataset 'SlowToMake' within "
                               "300ms; raise LoaderOptions::timeout"))));
  options.timeout = absl::Seconds(60);
  TENON_ASSERT_OK_AND_ASSIGN(
      auto loader, Loader::Create("SlowToMake", options, int64_t{20}));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOk());
}

// A process in the place of another one, which takes long until it joins the
// rings, as its plugin does.
TEST_F(LoaderProgramTest, ADeadlineHoldsWhileAWorkerIsStartedAgain) {
  LoaderOptions options = OptionsOfPlugin(1);
  options.on_worker_death = OnWorkerDeath::kRestart;
  TENON_ASSERT_OK_AND_ASSIGN(auto loader,
                             Loader::Create("Numbers", options, int64_t{200}));
  TENON_ASSERT_OK_AND_ASSIGN(const auto expected, RunEpoch(*loader, 1));
  std::vector<Copy> batches;
  EpochRange epoch = loader->Epoch(1);
  TENON_ASSERT_OK_AND_ASSIGN(auto batch, epoch.Next(Watchdog()));
  batches.push_back(CopyOf(*batch));
  ASSERT_EQ(setenv("TENON_TEST_DATASETS_DELAY_MS", "3000", 1), 0);
  ASSERT_EQ(kill(loader->worker_pids()[0], SIGKILL), 0);
  bool was_starting = false;
  for (;;) {
    const auto next = epoch.Next(Deadline::After(absl::Milliseconds(50)));
    if (next.ok() && !next->has_value()) break;
    if (next.ok()) {
      batches.push_back(CopyOf(**next));
      continue;
    }
    ASSERT_THAT(next, StatusIs(StatusCode::kDeadlineExceeded));
    was_starting |= absl::StrContains(next.status().message(), " is starting");
  }
  ASSERT_EQ(unsetenv("TENON_TEST_DATASETS_DELAY_MS"), 0);
  EXPECT_TRUE(was_starting);
  EXPECT_EQ(batches, expected);
  EXPECT_EQ(loader->replaced_workers(), 1);
}

TEST_F(LoaderProgramTest, WorkersAreThatProgram) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader,
      Loader::Create("Numbers", OptionsOfPlugin(), int64_t{100}));
  ASSERT_EQ(loader->worker_pids().size(), 2);
  for (const pid_t pid : loader->worker_pids()) {
    char target[4096] = {};
    ASSERT_GT(readlink(absl::StrCat("/proc/", pid, "/exe").c_str(), target,
                       sizeof(target) - 1),
              0);
    EXPECT_THAT(target, ::testing::EndsWith("/loader/tenon_loader_worker"));
  }
}

TEST_F(LoaderProgramTest, AProgramMayHaveTheDatasetItself) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader,
      Loader::Create(
          "Numbers",
          {.batch_size = 8,
           .workers = 2,
           .worker_program = WorkerProgram{.program = "/proc/self/exe"}},
          int64_t{100}));
  EXPECT_THAT(RunEpoch(*loader, 0), IsOk());
}

TEST_F(LoaderProgramTest, AConsumerThatDoesNotCallInit) {
  FILE* const pipe = popen(
      absl::StrCat(TestingPath("trainer_without_init"), " ", kWorkerProgram,
                   " ", TestingPath("libtest_datasets_plugin.so"), " 2>&1")
          .c_str(),
      "re");
  ASSERT_NE(pipe, nullptr);
  char output[4096] = {};
  const size_t size = fread(output, 1, sizeof(output) - 1, pipe);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(std::string(output, size), "sum 499500\n");
}

TEST_F(LoaderProgramTest, AKilledWorkerIsNamed) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto loader,
                             Loader::Create("Dies", OptionsOfPlugin()));
  const Pids pids(*loader);
  EXPECT_THAT(
      RunEpoch(*loader, 0),
      StatusIs(StatusCode::kAborted,
               AllOf(HasSubstr("worker 1 (entry 'tenon.loader.worker', pid "),
                     HasSubstr("SIGKILL"))));
  EXPECT_TRUE(Becomes([&] { return pids.AllEnded(); }));
}

TEST_F(LoaderProgramTest, OneThatIsKilledFromOutsideIsNamed) {
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto loader,
      Loader::Create("Numbers", OptionsOfPlugin(), int64_t{10'000'000}));
  kill(loader->worker_pids()[0], SIGKILL);
  EXPECT_THAT(RunEpoch(*loader, 0),
              StatusIs(StatusCode::kAborted, HasSubstr("SIGKILL")));
}

// Create() of a dataset with no arguments.
absl::Status CreationOf(absl::string_view dataset,
                        const LoaderOptions& options) {
  return Loader::Create(dataset, options).status();
}

TEST_F(LoaderProgramTest, ErrorsOfTheDatasetAreThoseOfCreate) {
  EXPECT_THAT(CreationOf("Nonsense", OptionsOfPlugin()),
              StatusIs(StatusCode::kNotFound,
                       AllOf(HasSubstr("no dataset is registered as "
                                       "'Nonsense'; there are: Bad, "),
                             HasSubstr("Numbers"))));
  EXPECT_THAT(CreationOf("Numbers", OptionsOfPlugin()),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("cannot make dataset 'Numbers'")));
  EXPECT_THAT(CreationOf("NoSuchThing", OptionsOfPlugin()),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("cannot make dataset 'NoSuchThing': no such "
                                 "thing")));
  EXPECT_THAT(CreationOf("Throws", OptionsOfPlugin()),
              StatusIs(StatusCode::kInternal, HasSubstr("it is on fire")));
  EXPECT_THAT(Loader::Create("SpecThrows", OptionsOfPlugin(), true),
              StatusIs(StatusCode::kInternal,
                       HasSubstr("spec() of the dataset threw: no spec")));
}

TEST_F(LoaderProgramTest, ProgramsThatCannotBeStarted) {
  LoaderOptions options = OptionsOfPlugin();
  options.worker_program->program = "/nowhere/worker";
  EXPECT_THAT(
      CreationOf("Dies", options),
      StatusIs(StatusCode::kNotFound, HasSubstr("open(/nowhere/worker)")));
  options.worker_program->program = "/bin/true";
  EXPECT_THAT(CreationOf("Dies", options),
              StatusIs(StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("entry 'tenon.loader.describe'"),
                             HasSubstr("program '/bin/true' has ended before "
                                       "a call of tenon::spawn::Init()"))));
}

TEST_F(LoaderProgramTest, LibrariesThatAreNoPlugins) {
  const auto refusal = [](const std::string& plugin) {
    LoaderOptions options = OptionsOfPlugin();
    options.worker_program->plugin = plugin;
    return CreationOf("Dies", options);
  };
  EXPECT_THAT(
      refusal("/nowhere/libphotos.so"),
      StatusIs(StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("cannot load plugin '/nowhere/libphotos.so'"),
                     HasSubstr("cannot open shared object file"))));
  EXPECT_THAT(refusal(kWorkerProgram),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("cannot load plugin")));
  EXPECT_THAT(refusal(TestingPath("libplugin_lacks_a_function.so")),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("undefined symbol: "
                                 "_Z26TenonFunctionThatIsNowherev")));
  EXPECT_THAT(refusal(TestingPath("libplugin_without_datasets.so")),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("there is no TENON_LOADER_DATASET in it")));
  EXPECT_THAT(
      refusal(TestingPath("libplugin_of_another_version.so")),
      StatusIs(StatusCode::kFailedPrecondition,
               HasSubstr("it was built with version 0.0.9/3 of Tenon, the "
                         "worker program with ")));
}

TEST_F(LoaderProgramTest, StaticInitializersOfAPluginAreOnlyTheWorkersTrouble) {
  // The dynamic linker may pass the exception on, or not.
  EXPECT_THAT(CreationOf("Dies", OptionsOfPlugin(1, "libplugin_throws.so")),
              AnyOf(StatusIs(StatusCode::kAborted,
                             AllOf(HasSubstr("SIGABRT"),
                                   HasSubstr("what():  no such device"))),
                    StatusIs(StatusCode::kInternal,
                             HasSubstr("std::runtime_error: no such device"))));
  EXPECT_THAT(CreationOf("Dies", OptionsOfPlugin(1, "libplugin_dies.so")),
              StatusIs(StatusCode::kAborted, HasSubstr("SIGKILL")));
}

}  // namespace
}  // namespace tenon::loader
