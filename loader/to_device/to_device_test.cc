// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Run twice: with a device that can pin the memory of workers, and with one
// that cannot (TENON_TEST_STAGED), so that a thread stages each batch.

#include "tenon/loader/to_device/to_device.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/pinned_memory.h"
#include "tenon/cuda_ipc/trace_testing.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/on_worker_death.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/loader_options.h"
#include "tenon/loader/loader_testing.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/loader/to_device/copies_in_flight.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/process/pid_fd.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using cuda_ipc::CUdeviceptr;
using cuda_ipc::CUstream;
using cuda_ipc::FakeDriver;
using enum absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool IsStaged() { return getenv("TENON_TEST_STAGED") != nullptr; }

// Loaded once: DeviceContexts::OfProcess() keeps what it loads. With each
// operation of a stream delayed, a missing wait is wrong elements.
FakeDriver& Fake() {
  static FakeDriver& fake =
      *new FakeDriver(IsStaged() ? "delay_us=200 attribute=113:0"
                                 : "delay_us=200 attribute=113:1");
  return fake;
}

// Attached by the first range.
const cuda_ipc::TraceTool& Tool() {
  static const auto& tool = *new cuda_ipc::TraceTool;
  return tool;
}

const cuda_ipc::DeviceContext& Gpu() {
  return **(*cuda_ipc::DeviceContexts::OfProcess())->Get(0);
}

const cuda_ipc::DriverTable& Driver() { return Gpu().driver(); }

// Keeps a stream from going on until it is opened.
class Gate {
 public:
  explicit Gate(CUstream stream) {
    const absl::Status closed = Gpu().Run([&] {
      return Gpu().Error(
          Driver().cuLaunchHostFunc(
              stream,
              [](void* open) { static_cast<std::latch*>(open)->wait(); },
              &open_),
          "cuLaunchHostFunc");
    });
    EXPECT_THAT(closed, IsOk());
  }
  void Open() { open_.count_down(); }

 private:
  std::latch open_{1};
};

class ToDeviceTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSamples = 200;
  static constexpr int64_t kBatch = 8;
  static constexpr int64_t kBatches = kSamples / kBatch;

  void SetUp() override {
    Tool();
    Fake().SetEnvironment();
    const absl::Status made = Gpu().Run([&] {
      return Gpu().Error(
          Driver().cuStreamCreate(&stream_, cuda_ipc::kCuStreamNonBlocking),
          "cuStreamCreate");
    });
    ASSERT_THAT(made, IsOk());
    // Made by the first ToCpu(), and kept.
    ASSERT_THAT(Gpu().Run([] { return Gpu().CopyStream(); }), IsOk());
    before_ = Held();
  }

  // All blocks are back with their workers, whose segments are unregistered
  // and unmapped then, and nothing is left on the device.
  void TearDown() override {
    EXPECT_TRUE(Becomes([&] { return Held() == before_; }))
        << Held() << "instead of\n"
        << before_;
    Synchronize();
    EXPECT_THAT(Gpu().Run([&] {
      return Gpu().Error(Driver().cuStreamDestroy_v2(stream_),
                         "cuStreamDestroy");
    }),
                IsOk());
  }

  static std::string Held() {
    std::string held = absl::StrCat(Fake().HeldBytes(0), " bytes\n");
    for (const std::string& leak : Fake().Leaks()) {
      absl::StrAppend(&held, leak, "\n");
    }
    return held;
  }

  static LoaderOptions Options() {
    return {.batch_size = kBatch, .workers = 2, .seed = 7};
  }
  static std::unique_ptr<Loader> MakeLoader(LoaderOptions options = Options()) {
    return Loader::Create<Numbers>(std::move(options), kSamples).value();
  }
  std::unique_ptr<ToDevice> Make(std::unique_ptr<Loader> loader = MakeLoader(),
                                 const ToDeviceOptions& options = {}) {
    return ToDevice::Create(std::move(loader), stream_, options).value();
  }

  // An epoch of the same loader without a device.
  static std::vector<Copy> Expected(int64_t epoch) {
    return RunEpoch(*MakeLoader(), epoch).value();
  }

  // The batch as it is for work that the user's stream gets now.
  absl::StatusOr<Copy> Read(const Batch& batch) {
    Copy copy = {.number = batch.number()};
    TENON_RETURN_IF_ERROR(ReadField(batch, "value", copy.values));
    TENON_RETURN_IF_ERROR(ReadField(batch, "noise", copy.noise));
    return copy;
  }
  absl::StatusOr<std::vector<Copy>> ReadAll(ToDevice& batches) {
    std::vector<Copy> read;
    while (true) {
      TENON_ASSIGN_OR_RETURN(const std::optional<Batch> batch,
                             batches.Next(Watchdog()));
      if (!batch) return read;
      TENON_ASSIGN_OR_RETURN(Copy copy, Read(*batch));
      read.push_back(std::move(copy));
    }
  }
  absl::StatusOr<std::vector<Copy>> ReadEpoch(ToDevice& batches,
                                              int64_t epoch) {
    TENON_RETURN_IF_ERROR(batches.StartEpoch(epoch));
    return ReadAll(batches);
  }

  void Synchronize() {
    Gpu()
        .Run([&] {
          return Gpu().Error(Driver().cuStreamSynchronize(stream_), "wait");
        })
        .IgnoreError();
  }

  static uint64_t Copies() { return Fake().Calls("cuMemcpyHtoDAsync_v2"); }
  static uint64_t Registrations() {
    return Fake().Calls("cuMemHostRegister_v2");
  }
  static uint64_t HostWaits() {
    return Fake().Calls("cuStreamSynchronize") +
           Fake().Calls("cuEventSynchronize") +
           Fake().Calls("cuCtxSynchronize");
  }

  CUstream stream_ = nullptr;
  std::string before_;

 private:
  template <typename T>
  absl::Status ReadField(const Batch& batch, absl::string_view name,
                         std::vector<T>& elements) {
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, batch.tensor(name));
    TENON_ASSIGN_OR_RETURN(const T* const there, tensor.device_data<const T>());
    elements.resize(static_cast<size_t>(tensor.spec().bytes()) / sizeof(T));
    return Gpu().Run([&] {
      return Gpu().Error(
          Driver().cuMemcpyDtoHAsync_v2(elements.data(),
                                        reinterpret_cast<uintptr_t>(there),
                                        elements.size() * sizeof(T), stream_),
          "cuMemcpyDtoHAsync");
    });
  }
};

TEST_F(ToDeviceTest, AnEpochHasTheSameBytesByOneCopyOfEachBatch) {
  const auto batches = Make();
  const uint64_t traced = Tool().Ended("ToDevice::Copy");
  for (const int64_t epoch : {0, 1}) {
    const uint64_t copies = Copies();
    TENON_ASSERT_OK_AND_ASSIGN(const auto read, ReadEpoch(*batches, epoch));
    EXPECT_EQ(read, Expected(epoch));
    EXPECT_EQ(Copies() - copies, static_cast<uint64_t>(kBatches));
    EXPECT_FALSE(batches->Next().value().has_value());
  }
  if (cuda_ipc::TraceTool::Missing().empty()) {
    EXPECT_EQ(Tool().Ended("ToDevice::Copy") - traced,
              static_cast<uint64_t>(2 * kBatches));
  }
  const ToDeviceStats stats = batches->stats();
  EXPECT_EQ(stats.batches, 2 * kBatches);
  // The first batch of an epoch may be in memory of this process.
  EXPECT_GE(stats.staged, IsStaged() ? 2 * kBatches - 2 : 0);
  EXPECT_LE(stats.staged, IsStaged() ? 2 * kBatches : 0);
  EXPECT_EQ(stats.not_pinned.code(), IsStaged() ? kUnimplemented : kOk);
}

TEST_F(ToDeviceTest, TensorsOfABatchAreOnTheDevice) {
  const auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto batch, batches->Next(Watchdog()));
  ASSERT_TRUE(batch.has_value());
  const Tensor values = batch->tensor("value").value();
  EXPECT_EQ(values.device().device_type, kDLCUDA);
  EXPECT_THAT(batch->data<int64_t>("value"),
              StatusIs(kFailedPrecondition, HasSubstr("ToCpu()")));
  Synchronize();
  const Tensor here = values.ToCpu().value();
  EXPECT_THAT(here.data<const int64_t>().value(),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// The user's stream is behind: what it does with a batch that was dropped comes
// before the copy of another one to the same memory.
TEST_F(ToDeviceTest, MemoryIsUsedAgainBehindTheUsersWork) {
  const auto batches = Make(MakeLoader(), {.prefetch = 1});
  const int64_t bytes = kBatch * static_cast<int64_t>(sizeof(int64_t));
  CUdeviceptr kept = 0;
  ASSERT_EQ(Gpu().Run([&] {
    return Gpu().Error(Driver().cuMemAlloc_v2(&kept, kBatches * bytes), "");
  }),
            absl::OkStatus());
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  for (int64_t i = 0; i < kBatches; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto batch, batches->Next(Watchdog()));
    const Tensor values = batch->tensor("value").value();
    const auto from =
        reinterpret_cast<uintptr_t>(*values.device_data<const int64_t>());
    ASSERT_THAT(Gpu().Run([&] {
      return Gpu().Error(Driver().cuMemcpyDtoDAsync_v2(
                             kept + static_cast<uint64_t>(i * bytes), from,
                             static_cast<size_t>(bytes), stream_),
                         "cuMemcpyDtoDAsync");
    }),
                IsOk());
  }
  Synchronize();
  std::vector<int64_t> values(kSamples);
  std::vector<int64_t> expected(kSamples);
  for (int64_t i = 0; i < kSamples; ++i) expected[static_cast<size_t>(i)] = i;
  ASSERT_THAT(Gpu().Run([&]() -> absl::Status {
    TENON_RETURN_IF_ERROR(
        Gpu().Error(Driver().cuMemcpyDtoH_v2(values.data(), kept,
                                             kSamples * sizeof(int64_t)),
                    "cuMemcpyDtoH"));
    return Gpu().Error(Driver().cuMemFree_v2(kept), "cuMemFree");
  }),
              IsOk());
  EXPECT_EQ(values, expected);
}

TEST_F(ToDeviceTest, TheHostWaitsForNoCopy) {
  const auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  ASSERT_THAT(batches->Next(Watchdog()), IsOk());
  const uint64_t waits = HostWaits();
  const uint64_t registrations = Registrations();
  for (int64_t i = 1; i < kBatches; ++i) {
    ASSERT_THAT(batches->Next(Watchdog()), IsOk());
    // A user whose device keeps pace.
    while (!batches->IsIdle()) absl::SleepFor(absl::Microseconds(100));
  }
  EXPECT_EQ(HostWaits(), waits);
  if (!IsStaged()) {
    EXPECT_EQ(batches->stats().waits, 0);
    EXPECT_LE(Registrations() - registrations, 4u);
  }
}

// Workers have memory for few batches, so each has to come back.
TEST_F(ToDeviceTest, BlocksReturnToTheirWorkers) {
  const uint64_t before = Registrations();
  LoaderOptions options = Options();
  options.memory_quota = 2 * kBatch * (8 + 4 * kNoiseSize);
  const auto batches = Make(MakeLoader(options));
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    TENON_ASSERT_OK_AND_ASSIGN(const auto read, ReadEpoch(*batches, epoch));
    EXPECT_EQ(read.size(), static_cast<size_t>(kBatches));
  }
  // The segments of the first epoch are used again and again.
  EXPECT_LE(Registrations() - before, 4u);
}

TEST_F(ToDeviceTest, AnEpochThatIsAbandonedLeavesNothing) {
  const auto batches = Make();
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    ASSERT_THAT(batches->StartEpoch(epoch), IsOk());
    for (int64_t i = 0; i < epoch; ++i) {
      ASSERT_THAT(batches->Next(Watchdog()), IsOk());
    }
  }
  TENON_ASSERT_OK_AND_ASSIGN(const auto read, ReadEpoch(*batches, 4));
  EXPECT_EQ(read, Expected(4));
}

TEST_F(ToDeviceTest, ItCanBeDestroyedInEveryState) {
  EXPECT_THAT(Make()->Next(), StatusIs(kFailedPrecondition));
  ASSERT_THAT(Make()->StartEpoch(0), IsOk());
  std::optional<Batch> outlives;
  {
    const auto batches = Make();
    ASSERT_THAT(batches->StartEpoch(0), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(outlives, batches->Next(Watchdog()));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const Copy read, Read(*outlives));
  EXPECT_EQ(read, Expected(0)[0]);
}

TEST_F(ToDeviceTest, ItsEndWaitsForNoStream) {
  auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  ASSERT_THAT(batches->Next(Watchdog()), IsOk());
  Gate gate(stream_);
  ASSERT_THAT(batches->Next(Watchdog()), IsOk());
  batches.reset();  // With copies behind the gate.
  gate.Open();
  Synchronize();
}

TEST_F(ToDeviceTest, ADeviceThatFallsBehindBoundsWhatIsInFlight) {
  const auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  Gate gate(stream_);
  std::vector<Copy> read;
  std::vector<Batch> kept;
  absl::Status stopped;
  while (stopped.ok() && kept.size() < static_cast<size_t>(kBatches)) {
    absl::StatusOr<std::optional<Batch>> batch =
        batches->Next(Deadline::After(absl::Seconds(1)));
    stopped = batch.status();
    if (batch.ok()) kept.push_back(**std::move(batch));
  }
  EXPECT_THAT(stopped, StatusIs(kDeadlineExceeded));
  EXPECT_LE(kept.size(), 4u);
  EXPECT_GT(batches->stats().waits, 0);
  gate.Open();
  for (const Batch& batch : kept) {
    TENON_ASSERT_OK_AND_ASSIGN(Copy copy, Read(batch));
    read.push_back(std::move(copy));
  }
  TENON_ASSERT_OK_AND_ASSIGN(const auto rest, ReadAll(*batches));
  read.insert(read.end(), rest.begin(), rest.end());
  EXPECT_EQ(read, Expected(0));  // Nothing is lost.
}

TEST_F(ToDeviceTest, AUserWhoKeepsBatchesIsToldWhenThePoolIsFull) {
  // Some 600 KB each, so that 2 MiB have three.
  const auto batches =
      Make(Loader::Create<Numbers>({.batch_size = 8192, .workers = 2}, 65536)
               .value(),
           {.pool = {.name = "few", .quota_bytes = size_t{2} << 20}});
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  std::vector<Batch> kept;
  absl::Status stopped;
  while (stopped.ok() && kept.size() < 8) {
    absl::StatusOr<std::optional<Batch>> batch =
        batches->Next(Deadline::After(absl::Seconds(2)));
    stopped = batch.status();
    if (batch.ok()) kept.push_back(**std::move(batch));
  }
  EXPECT_THAT(stopped, StatusIs(kDeadlineExceeded, HasSubstr("few")));
  EXPECT_EQ(kept.size(), 3u);
  kept.clear();
  TENON_ASSERT_OK_AND_ASSIGN(const auto rest, ReadAll(*batches));
  EXPECT_EQ(rest.size(), 5u);  // Nothing is lost.
}

TEST_F(ToDeviceTest, AWorkerThatIsKilledIsReplacedOrReported) {
  LoaderOptions options = Options();
  options.on_worker_death = OnWorkerDeath::kRestart;
  {
    const auto batches = Make(MakeLoader(options));
    ASSERT_THAT(batches->StartEpoch(0), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const auto first, batches->Next(Watchdog()));
    ASSERT_EQ(kill(batches->loader().worker_pids()[0], SIGKILL), 0);
    std::vector<Copy> read = {Read(*first).value()};
    TENON_ASSERT_OK_AND_ASSIGN(const auto rest, ReadAll(*batches));
    read.insert(read.end(), rest.begin(), rest.end());
    EXPECT_EQ(read, Expected(0));
  }
  const auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto first, batches->Next(Watchdog()));
  for (const pid_t pid : batches->loader().worker_pids()) {
    ASSERT_EQ(kill(pid, SIGKILL), 0);
  }
  absl::StatusOr<std::vector<Copy>> rest = ReadAll(*batches);
  EXPECT_THAT(rest, StatusIs(kAborted));
  EXPECT_EQ(Read(*first).value(), Expected(0)[0]);
}

TEST_F(ToDeviceTest, ErrorsOfBatchesComeInTheirPlace) {
  auto bad =
      Make(Loader::Create("Bad", {.batch_size = 2, .workers = 2}).value());
  ASSERT_THAT(bad->StartEpoch(0), IsOk());
  ASSERT_THAT(bad->Next(Watchdog()), IsOk());               // 0, 1
  EXPECT_THAT(bad->Next(Watchdog()), StatusIs(kDataLoss));  // 2, 3
  TENON_ASSERT_OK_AND_ASSIGN(const auto third, bad->Next(Watchdog()));
  EXPECT_EQ(third->number(), 2);
}

TEST_F(ToDeviceTest, AStateIsBehindTheBatchThatWasReturned) {
  const auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(batches->Next(Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState state, batches->State());
  auto loader = MakeLoader();
  ASSERT_THAT(loader->Load(state), IsOk());
  const auto resumed = Make(std::move(loader));
  TENON_ASSERT_OK_AND_ASSIGN(const auto rest, ReadEpoch(*resumed, 0));
  std::vector<Copy> expected = Expected(0);
  expected.erase(expected.begin(), expected.begin() + 3);
  EXPECT_EQ(rest, expected);
  TENON_ASSERT_OK_AND_ASSIGN(const LoaderState end, resumed->State());
  EXPECT_EQ(end.epoch(), 1);
}

TEST_F(ToDeviceTest, AFailedCallOfTheDriverIsFinalAndLeavesNothing) {
  for (const char* entry : {"cuMemcpyHtoDAsync_v2", "cuEventRecord",
                            "cuStreamWaitEvent", "cuLaunchHostFunc"}) {
    SCOPED_TRACE(entry);
    const auto batches = Make();
    ASSERT_THAT(batches->StartEpoch(0), IsOk());
    ASSERT_THAT(batches->Next(Watchdog()), IsOk());
    Fake().Fail(entry, 1, cuda_ipc::CUDA_ERROR_INVALID_VALUE);
    absl::Status failed;
    for (int64_t i = 0; i < kBatches && failed.ok(); ++i) {
      failed = batches->Next(Watchdog()).status();
    }
    Fake().StopFailing(entry);
    EXPECT_THAT(failed, StatusIs(kInvalidArgument, HasSubstr("cu")));
    EXPECT_THAT(batches->Next(), StatusIs(kInvalidArgument));
    EXPECT_THAT(batches->StartEpoch(1), StatusIs(kInvalidArgument));
  }
  for (const char* entry : {"cuStreamCreate", "cuEventCreate"}) {
    SCOPED_TRACE(entry);
    Fake().Fail(entry, 1, cuda_ipc::CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(ToDevice::Create(MakeLoader(), stream_),
                StatusIs(kResourceExhausted));
    Fake().StopFailing(entry);
  }
}

// Each call of the driver that a batch needs may lack memory once.
TEST_F(ToDeviceTest, AfterAShortageNextMayBeTriedAgain) {
  const std::vector<Copy> expected = Expected(0);
  auto batches = Make();
  for (const char* entry : {"cuMemcpyHtoDAsync_v2", "cuEventRecord",
                            "cuStreamWaitEvent", "cuLaunchHostFunc"}) {
    for (const uint64_t nth : {1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat(entry, " ", nth));
      ASSERT_THAT(batches->StartEpoch(0), IsOk());
      Fake().Fail(entry, nth, cuda_ipc::CUDA_ERROR_OUT_OF_MEMORY);
      std::vector<Copy> read;
      absl::Status last;
      for (int64_t i = 0; i < kBatches; ++i) {
        absl::StatusOr<std::optional<Batch>> batch = batches->Next(Watchdog());
        if (absl::IsResourceExhausted(batch.status())) {
          batch = batches->Next(Watchdog());
        }
        last = batch.status();
        if (!last.ok()) break;
        read.push_back(Read(**batch).value());
      }
      Fake().StopFailing(entry);
      if (absl::IsAborted(last)) {
        EXPECT_TRUE(IsStaged());  // The thread has no second try.
        EXPECT_THAT(batches->Next(Watchdog()), StatusIs(kAborted));
        batches = Make();
        continue;
      }
      EXPECT_THAT(last, IsOk());
      Synchronize();
      EXPECT_EQ(read, expected);
    }
  }
}

// The driver calls no host function of a lost context.
TEST_F(ToDeviceTest, AContextThatIsLostEndsTheWaitForItsCopies) {
  const auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  Gate gate(stream_);
  Fake().Fail("cuStreamQuery", 0, cuda_ipc::CUDA_ERROR_ILLEGAL_ADDRESS);
  absl::Status failed;
  for (int64_t i = 0; i < kBatches && failed.ok(); ++i) {
    failed = batches->Next(Watchdog()).status();
  }
  EXPECT_THAT(failed, StatusIs(kInternal, HasSubstr("cuStreamQuery")));
  EXPECT_TRUE(batches->IsIdle());
  EXPECT_THAT(batches->Next(Watchdog()), StatusIs(kInternal));
  Fake().StopFailing("cuStreamQuery");
  gate.Open();
  // In truth nothing is copied any more.
  EXPECT_EQ(Gpu().Run([] {
    return Gpu().Error(Driver().cuCtxSynchronize(), "cuCtxSynchronize");
  }),
            absl::OkStatus());
}

TEST_F(ToDeviceTest, AStreamUnderCaptureIsRefused) {
  const auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  const auto call = [](const auto& capture) {
    return Gpu().Run([&] { return Gpu().Error(capture(), "capture"); });
  };
  ASSERT_THAT(call([&] {
                return Driver().cuStreamBeginCapture_v2(
                    stream_, cuda_ipc::CU_STREAM_CAPTURE_MODE_RELAXED);
              }),
              IsOk());
  EXPECT_THAT(
      batches->Next(),
      StatusIs(kFailedPrecondition, HasSubstr("ToDevice::Next(): stream 0x")));
  // The capture is valid: nothing was synchronized.
  cuda_ipc::CUgraph graph = nullptr;
  ASSERT_THAT(
      call([&] { return Driver().cuStreamEndCapture(stream_, &graph); }),
      IsOk());
  EXPECT_EQ(Driver().cuGraphDestroy(graph), cuda_ipc::CUDA_SUCCESS);
}

TEST_F(ToDeviceTest, OptionsOutOfRangeAreRefused) {
  EXPECT_THAT(ToDevice::Create(nullptr, stream_),
              StatusIs(kInvalidArgument, HasSubstr("loader is null")));
  EXPECT_THAT(ToDevice::Create(MakeLoader(), nullptr),
              StatusIs(kInvalidArgument, HasSubstr("stream is null")));
  EXPECT_THAT(ToDevice::Create(MakeLoader(), stream_, {.prefetch = 0}),
              StatusIs(kInvalidArgument, HasSubstr("prefetch is 0")));
  EXPECT_THAT(ToDevice::Create(MakeLoader(), stream_, {.device = 9}),
              StatusIs(kNotFound));
}

// --- The thread that stages batches. ---

void ThrowOnFire(const CrashPoint& point) {
  if (absl::string_view(point.name()) == "to_device.staging") {
    throw std::runtime_error("on fire");
  }
}

TEST_F(ToDeviceTest, TheEndOfTheThreadIsReported) {
  if (!IsStaged()) GTEST_SKIP() << "there is no thread where memory is pinned";
  const auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  ASSERT_THAT(batches->Next(Watchdog()), IsOk());
  SetCrashPointHook(ThrowOnFire);
  absl::Status failed;
  for (int64_t i = 0; i < kBatches && failed.ok(); ++i) {
    failed = batches->Next(Watchdog()).status();
  }
  SetCrashPointHook(nullptr);
  EXPECT_THAT(failed, StatusIs(kInternal, HasSubstr("has ended: on fire")));
  EXPECT_THAT(batches->Next(), StatusIs(kInternal));
}

// The thread that stages is not in the child, and no copy is under way.
TEST_F(ToDeviceTest, AForkedChildMayDestroyIt) {
  auto batches = Make();
  ASSERT_THAT(batches->StartEpoch(0), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto first, batches->Next(Watchdog()));
  TENON_ASSERT_OK_AND_ASSIGN(Copy copy, Read(*first));
  Synchronize();
  ASSERT_TRUE(Becomes([&] { return batches->IsIdle(); }));
  const pid_t child = fork();
  if (child == 0) {
    batches.reset();
    _exit(0);
  }
  ASSERT_GT(child, 0);
  TENON_ASSERT_OK_AND_ASSIGN(PidFd process, PidFd::Open(child));
  EXPECT_TRUE(Becomes([&] { return process.HasEnded(); }));
  if (!process.HasEnded()) kill(child, SIGKILL);
  TENON_ASSERT_OK_AND_ASSIGN(const ExitStatus end, process.Reap(Watchdog()));
  EXPECT_TRUE(end.success()) << end.ToString();
  // All memory is still this process's.
  TENON_ASSERT_OK_AND_ASSIGN(std::vector<Copy> read, ReadAll(*batches));
  read.insert(read.begin(), std::move(copy));
  EXPECT_EQ(read, Expected(0));
}

TEST_F(ToDeviceTest, MemoryThatCannotBePinnedAtAllIsCopiedAllTheSame) {
  Fake().Fail("cuMemHostRegister_v2", 0, cuda_ipc::CUDA_ERROR_NOT_SUPPORTED);
  {
    const auto batches = Make();
    TENON_ASSERT_OK_AND_ASSIGN(const auto read, ReadEpoch(*batches, 0));
    EXPECT_EQ(read, Expected(0));
    EXPECT_EQ(batches->stats().staged, kBatches);
    EXPECT_THAT(batches->stats().not_pinned, StatusIs(kUnimplemented));
  }
  Fake().StopFailing("cuMemHostRegister_v2");
}

// --- LoaderOptions::pin_memory. ---

TEST_F(ToDeviceTest, PinMemoryPinsTheBatchesOfALoader) {
  LoaderOptions options = Options();
  options.pin_memory = true;
  const auto loader = MakeLoader(options);
  EpochRange epoch = loader->Epoch(0);
  // The first batch may be in memory of this process.
  ASSERT_THAT(epoch.Next(Watchdog()), IsOk());
  std::optional<Batch> batch = epoch.Next(Watchdog()).value();
  EXPECT_EQ(cuda_ipc::IsPinned(batch->tensor("value").value()), !IsStaged());
  const std::vector<std::string> warnings = loader->warnings();
  if (IsStaged()) {
    EXPECT_THAT(warnings,
                ::testing::Contains(AllOf(HasSubstr("pin_memory has no effect"),
                                          HasSubstr("113 is 0"))));
  } else {
    EXPECT_THAT(warnings,
                ::testing::Not(::testing::Contains(HasSubstr("pin_memory"))));
  }
}

// --- The memory of copies. ---

TEST(CopiesInFlightTest, ALostContextDropsAllAndLateCallbacksDoNothing) {
  const std::shared_ptr<CopiesInFlight> copies = CopiesInFlight::Create();
  auto from = Storage::CreatePrivate(16).value();
  const std::weak_ptr<Storage> watched = from;
  void* const first = copies->Begin({.from = from, .to = from}).value();
  void* const second =
      copies->Begin({.from = from, .to = std::move(from)}).value();
  EXPECT_FALSE(copies->WaitForFewerThan(2, Deadline::Passed()));
  CopiesInFlight::Land(first);
  EXPECT_TRUE(copies->WaitForFewerThan(2, Deadline::Passed()));
  EXPECT_FALSE(copies->WaitForFewerThan(1, Deadline::Passed()));
  copies->DropAll(absl::InternalError("lost"));
  EXPECT_TRUE(copies->WaitForFewerThan(1, Deadline::Passed()));
  EXPECT_TRUE(watched.expired());
  CopiesInFlight::Land(second);
  EXPECT_THAT(copies->Begin({}), StatusIs(kInternal, HasSubstr("lost")));
}

}  // namespace
}  // namespace tenon::loader
