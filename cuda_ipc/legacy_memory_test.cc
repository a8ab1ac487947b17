// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The exporter is a child of its own: the driver refuses a handle in the
// process that made it.

#include "tenon/cuda_ipc/legacy_memory.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_copy.h"
#include "tenon/cuda_ipc/device_testing.h"
#include "tenon/cuda_ipc/machine_driver_testing.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 4096;
constexpr int kAllocations = 4;

// The test itself never calls cuInit: both sides are its children.
class LegacyMemoryTest : public DeviceTest {
 protected:
  void SetUp() override {
    if (!has_fake()) {
      const std::string problem = MachineDriverProblem();
      if (!problem.empty()) GTEST_SKIP() << problem;
    }
    ASSERT_EQ(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets_.data()),
        0);
    settings_ = absl::StrCat("machine=legacy", getpid());
  }
  void TearDown() override {
    for (const int socket : sockets_) {
      if (socket >= 0) close(socket);
    }
  }

  CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_THAT(gpu_->Run([&] {
      return gpu_->Error(d_.cuMemAlloc_v2(&address, bytes), "cuMemAlloc");
    }),
                IsOk());
    return address;
  }
  uint32_t Read(const LegacyMemory& memory) {
    uint32_t value = 0;
    EXPECT_THAT(CopyToHost(*gpu_, std::as_writable_bytes(std::span(&value, 1)),
                           memory.address()),
                IsOk());
    return value;
  }
  void Write(CUdeviceptr address, uint32_t value) {
    EXPECT_THAT(
        CopyToDevice(*gpu_, address, std::as_bytes(std::span(&value, 1))),
        IsOk());
  }

  // Runs `importer` in a process that receives the handles of allocations with
  // 100, 101 ... at offset 256, of another process, which lives meanwhile.
  void Import(const std::function<void(std::vector<LegacyHandle>&)>& importer) {
    absl::StatusOr<ForkedChild> exporting =
        ForkedChild::Fork(Options("exporter"), [this](const Reporter&) {
          Start(settings_);
          LegacyImports legacy(*devices_);
          std::vector<LegacyExport> exports;
          for (uint32_t i = 0; i < kAllocations; ++i) {
            const CUdeviceptr address = Allocate(kBytes);
            Write(address + 256, 100 + i);
            absl::StatusOr<LegacyExport> made =
                legacy.Export(*gpu_, address + 256, 512);
            ASSERT_THAT(made, IsOk());
            exports.push_back(*std::move(made));
            EXPECT_EQ(write(sockets_[0], &exports.back().handle(),
                            sizeof(LegacyHandle)),
                      static_cast<ssize_t>(sizeof(LegacyHandle)));
          }
          char done = 0;  // The end of the file, once the importer has ended.
          EXPECT_EQ(read(sockets_[0], &done, 1), 1);
        });
    ASSERT_THAT(exporting, IsOk());
    absl::StatusOr<ForkedChild> importing =
        ForkedChild::Fork(Options("importer"), [&](const Reporter&) {
          Start(settings_);
          std::vector<LegacyHandle> handles(kAllocations);
          for (LegacyHandle& handle : handles) {
            pollfd readable = {
                .fd = sockets_[1], .events = POLLIN, .revents = 0};
            ASSERT_EQ(poll(&readable, 1, 20'000), 1);
            ASSERT_EQ(read(sockets_[1], &handle, sizeof(handle)),
                      static_cast<ssize_t>(sizeof(handle)));
          }
          importer(handles);
        });
    ASSERT_THAT(importing, IsOk());
    EXPECT_TRUE(importing->EndsWell());
    EXPECT_EQ(write(sockets_[1], "", 1), 1);
    EXPECT_TRUE(exporting->EndsWell());
  }

  // In a child, with a driver.
  void InChild(const std::function<void()>& body) {
    EXPECT_TRUE(PassesInChild([&] {
      Start(settings_);
      body();
    }));
  }

  // Cases that fail each call take seconds of a processor.
  static ChildOptions Options(const std::string& name) {
    return {.name = name, .watchdog = absl::Seconds(100)};
  }
  // 0 without the fake, which counts them.
  uint64_t Calls() const { return has_fake() ? fake_.AllCalls() : 0; }

  std::array<int, 2> sockets_ = {-1, -1};
  std::string settings_;
};

TEST_F(LegacyMemoryTest, AnImportReadsAndWritesTheExportersMemory) {
  Import([&](std::vector<LegacyHandle>& handles) {
    LegacyImports legacy(*devices_);
    for (uint32_t i = 0; i < kAllocations; ++i) {
      EXPECT_EQ(handles[i].offset, 256);
      absl::StatusOr<LegacyMemory> memory = legacy.Open(handles[i]);
      ASSERT_THAT(memory, IsOk());
      EXPECT_EQ(memory->size(), 512);
      EXPECT_EQ(Read(*memory), 100 + i);
      Write(memory->address(), 200 + i);
      EXPECT_EQ(Read(*memory), 200 + i);
    }
  });
}

TEST_F(LegacyMemoryTest, AnAllocationIsOpenedOnceAndAReleaseMakesNoCall) {
  Import([&](std::vector<LegacyHandle>& handles) {
    LegacyImports legacy(*devices_);
    std::optional<LegacyMemory> first = *legacy.Open(handles[0]);
    const uint64_t before = Calls();
    std::optional<LegacyMemory> second = *legacy.Open(handles[0]);
    EXPECT_EQ(first->address(), second->address());
    LegacyHandle whole = handles[0];
    whole.offset = 0;
    whole.bytes = kBytes;
    std::optional<LegacyMemory> all = *legacy.Open(whole);
    EXPECT_EQ(all->address() + 256, first->address());
    first.reset();
    second.reset();
    all.reset();
    all = *legacy.Open(whole);  // Still open.
    all.reset();
    EXPECT_EQ(Calls(), before);
    if (has_fake()) {
      EXPECT_EQ(fake_.Calls("cuIpcOpenMemHandle_v2"), 1);
    }
    EXPECT_THAT(legacy.Sweep(), IsOkAndHolds(1u));
    if (has_fake()) {
      EXPECT_EQ(fake_.Calls("cuIpcCloseMemHandle"), 1);
    }
    EXPECT_THAT(legacy.Sweep(), IsOkAndHolds(0u));
  });
}

TEST_F(LegacyMemoryTest, IdleAllocationsAreClosedBeyondTheLimitAndInOrder) {
  if (!has_fake()) GTEST_SKIP() << "needs the fake driver, which counts calls";
  Import([&](std::vector<LegacyHandle>& handles) {
    LegacyImports legacy(*devices_, {.max_idle = 1});
    LegacyMemory used = *legacy.Open(handles[0]);
    EXPECT_THAT(legacy.Open(handles[1]), IsOk());
    EXPECT_THAT(legacy.Open(handles[2]), IsOk());
    EXPECT_EQ(fake_.Calls("cuIpcCloseMemHandle"), 0);
    EXPECT_THAT(legacy.Open(handles[3]), IsOk());  // Closes 1.
    EXPECT_EQ(fake_.Calls("cuIpcCloseMemHandle"), 1);
    const uint64_t before = fake_.AllCalls();
    EXPECT_THAT(legacy.Open(handles[2]), IsOk());
    EXPECT_EQ(fake_.AllCalls(), before);
    EXPECT_EQ(Read(used), 100u);
  });
}

TEST_F(LegacyMemoryTest, ThisProcessesOwnMemoryIsOpenedWithoutTheDriver) {
  InChild([&] {
    LegacyImports legacy(*devices_);
    const CUdeviceptr address = Allocate(kBytes);
    Write(address + 64, 5);
    std::optional<LegacyExport> kept = *legacy.Export(*gpu_, address + 64, 128);
    LegacyHandle handle = kept->handle();
    const uint64_t before = Calls();
    absl::StatusOr<LegacyMemory> memory = legacy.Open(handle);
    ASSERT_THAT(memory, IsOk());
    EXPECT_EQ(memory->address(), address + 64);
    EXPECT_EQ(Calls(), before);
    handle.bytes = kBytes;
    EXPECT_THAT(legacy.Open(handle),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("exceeds its allocation")));
    // The driver refuses it once the export is gone.
    memory = absl::CancelledError();
    kept.reset();
    handle.bytes = 128;
    EXPECT_THAT(legacy.Open(handle),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("the memory is of this process")));
  });
}

TEST_F(LegacyMemoryTest, RangesAndOtherMemoryAreRefused) {
  InChild([&] {
    LegacyImports legacy(*devices_);
    const CUdeviceptr address = Allocate(kBytes);
    EXPECT_THAT(legacy.Export(*gpu_, address + 1, kBytes),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("exceeds its allocation")));
    absl::StatusOr<DeviceAllocation> pooled =
        DeviceAllocation::Create(*gpu_, size_t{2} << 20);
    ASSERT_THAT(pooled, IsOk());
    EXPECT_THAT(legacy.Export(*gpu_, pooled->address(), 1),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("allocate from a DevicePool")));
  });
  Import([&](std::vector<LegacyHandle>& handles) {
    LegacyImports legacy(*devices_);
    const std::string before = Held();
    handles[0].bytes = kBytes;
    EXPECT_THAT(legacy.Open(handles[0]),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("exceeds its allocation")));
    handles[1].device = {0xab};
    EXPECT_THAT(legacy.Open(handles[1]), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_EQ(Held(), before);
  });
}

TEST_F(LegacyMemoryTest, EachCallThatFailsIsAnErrorAndNothingIsLost) {
  if (!has_fake()) GTEST_SKIP() << "needs the fake driver, which fails calls";
  Import([&](std::vector<LegacyHandle>& handles) {
    LegacyImports legacy(*devices_);
    FailEachCall({"cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2",
                  "cuDeviceGetAttribute", "cuIpcOpenMemHandle_v2",
                  "cuIpcCloseMemHandle", "cuMemGetAddressRange_v2"},
                 [&]() -> absl::Status {
                   const absl::Status opened = legacy.Open(handles[0]).status();
                   absl::Status closed = legacy.Sweep().status();
                   // A close that failed can be repeated.
                   EXPECT_THAT(legacy.Sweep(), IsOk());
                   return opened.ok() ? closed : opened;
                 });
  });
  InChild([&] {
    LegacyImports legacy(*devices_);
    const CUdeviceptr address = Allocate(kBytes);
    FailEachCall(
        {"cuCtxPopCurrent_v2", "cuCtxPushCurrent_v2", "cuDeviceGetAttribute",
         "cuIpcGetMemHandle", "cuMemGetAddressRange_v2"},
        [&] { return legacy.Export(*gpu_, address, 8).status(); });
  });
}

}  // namespace
}  // namespace tenon::cuda_ipc
