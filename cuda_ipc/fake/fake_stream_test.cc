// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The rules of streams, events, words and registered memory within one process,
// each broken once.

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/fake/fake_testing.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon::cuda_ipc {
namespace {

class FakeStreamTest : public FakeDriverTest {
 protected:
  // A stream that waits until Open().
  CUstream CreateClosedStream() {
    const CUstream stream = CreateStream();
    ++gate_.streams;
    EXPECT_EQ(d_.cuLaunchHostFunc(
                  stream,
                  [](void* data) {
                    auto* const gate = static_cast<Gate*>(data);
                    EXPECT_TRUE(Becomes([gate] { return gate->open.load(); }));
                    --gate->streams;
                  },
                  &gate_),
              CUDA_SUCCESS);
    return stream;
  }
  void Open() { gate_.open = true; }
  void TearDown() override {
    Open();
    EXPECT_TRUE(Becomes([this] { return gate_.streams == 0; }));
  }
  bool Completes(CUstream stream) {
    return Becomes([&] { return d_.cuStreamQuery(stream) == CUDA_SUCCESS; });
  }

  CUevent CreateEvent(unsigned flags = kCuEventDisableTiming) {
    CUevent event = nullptr;
    EXPECT_EQ(d_.cuEventCreate(&event, flags), CUDA_SUCCESS);
    return event;
  }

  struct Gate {
    std::atomic<bool> open = false;
    std::atomic<int> streams = 0;  // That wait.
  } gate_;
};

TEST_F(FakeStreamTest, WorkOfAStreamIsInOrderAndLaterThanTheCall) {
  const CUdeviceptr address = Allocate(64);
  const CUstream stream = CreateClosedStream();
  EXPECT_EQ(d_.cuMemsetD8Async(address, 1, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemsetD8Async(address, 2, 32, stream), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  // A synchronous copy does not wait for a stream.
  EXPECT_EQ(Read(address), 0);
  Open();
  EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamQuery(stream), CUDA_SUCCESS);
  EXPECT_EQ(Read(address), 0x02020202);
  EXPECT_EQ(Read(address + 32), 0x01010101);
}

TEST_F(FakeStreamTest, ADelayShowsAMissingWait) {
  Start("delay_us=20000");
  const CUdeviceptr address = Allocate(4);
  const CUstream stream = CreateStream();
  int early = 0;
  const absl::Time began = absl::Now();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(d_.cuMemsetD8Async(address, i + 1, 4, stream), CUDA_SUCCESS);
    if (Read(address) != 0x01010101u * (i + 1)) ++early;
    EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(Read(address), 0x01010101u * (i + 1));
  }
  EXPECT_GT(early, 0);
  // 10 ms on average.
  EXPECT_GT(absl::Now() - began, absl::Milliseconds(50));
}

TEST_F(FakeStreamTest, StreamsAreHandlesOfTheCurrentContext) {
  const CUdeviceptr address = Allocate(4);
  EXPECT_EQ(d_.cuMemsetD8Async(address, 0, 4, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
  CUstream stream = nullptr;
  EXPECT_EQ(d_.cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
  stream = CreateStream();
  Push(1);
  EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(d_.cuCtxPopCurrent_v2(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamDestroy_v2(stream), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(FakeStreamTest, ADestroyedStreamFinishesItsWork) {
  const CUdeviceptr address = Allocate(4);
  const CUstream stream = CreateClosedStream();
  EXPECT_EQ(d_.cuMemsetD8Async(address, 3, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  EXPECT_EQ(Read(address), 0);
  Open();
  EXPECT_TRUE(Becomes([&] { return Read(address) == 0x03030303; }));
}

TEST_F(FakeStreamTest, MemoryThatIsFreedUnderAStreamEndsAllWork) {
  const CUdeviceptr address = Allocate(4);
  const CUstream stream = CreateClosedStream();
  EXPECT_EQ(d_.cuMemsetD8Async(address, 3, 4, stream), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemFree_v2(address), CUDA_SUCCESS);
  Open();
  EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr other = 0;
  EXPECT_EQ(d_.cuMemAlloc_v2(&other, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(FakeStreamTest, HostFunctionsMayNotCallTheDriver) {
  struct Called {
    const DriverTable* driver;
    CUresult result;
  } called = {&d_, CUDA_SUCCESS};
  const CUstream stream = CreateStream();
  EXPECT_EQ(d_.cuLaunchHostFunc(
                stream,
                [](void* data) {
                  auto* const c = static_cast<Called*>(data);
                  int count = 0;
                  c->result = c->driver->cuDeviceGetCount(&count);
                },
                &called),
            CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(called.result, CUDA_ERROR_NOT_PERMITTED);
}

TEST_F(FakeStreamTest, AnEventThatWasNeverRecordedIsComplete) {
  const CUevent event = CreateEvent();
  EXPECT_EQ(d_.cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuEventSynchronize(event), CUDA_SUCCESS);
  const CUstream stream = CreateStream();
  EXPECT_EQ(d_.cuStreamWaitEvent(stream, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
}

TEST_F(FakeStreamTest, AnEventOrdersStreamsByItsLastRecordAtTheCall) {
  const CUdeviceptr from = Allocate(4);
  const CUdeviceptr to = Allocate(4);
  const CUstream writer = CreateClosedStream();
  const CUstream reader = CreateStream();
  const CUevent event = CreateEvent();
  EXPECT_EQ(d_.cuMemsetD8Async(from, 9, 4, writer), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuEventRecord(event, writer), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuEventQuery(event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(d_.cuStreamWaitEvent(reader, event, 0), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemcpyDtoDAsync_v2(to, from, 4, reader), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamQuery(reader), CUDA_ERROR_NOT_READY);
  Open();
  EXPECT_EQ(d_.cuStreamSynchronize(reader), CUDA_SUCCESS);
  EXPECT_EQ(Read(to), 0x09090909);
  EXPECT_EQ(d_.cuEventSynchronize(event), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuEventQuery(event), CUDA_SUCCESS);
}

TEST_F(FakeStreamTest, EventsOfSeveralProcessesHaveNoTiming) {
  CUevent event = nullptr;
  EXPECT_EQ(d_.cuEventCreate(&event, kCuEventInterprocess),
            CUDA_ERROR_INVALID_VALUE);
  CUipcEventHandle handle;
  EXPECT_EQ(d_.cuIpcGetEventHandle(&handle, CreateEvent()),
            CUDA_ERROR_INVALID_VALUE);
  event = CreateEvent(kCuEventInterprocess | kCuEventDisableTiming);
  EXPECT_EQ(d_.cuIpcGetEventHandle(&handle, event), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuIpcOpenEventHandle(&event, handle),
            CUDA_ERROR_INVALID_CONTEXT);
  Push(1);
  EXPECT_EQ(d_.cuEventRecord(event, CreateStream()), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(FakeStreamTest, AnEventIsAHandleUntilItIsDestroyed) {
  const CUevent event = CreateEvent();
  EXPECT_EQ(d_.cuEventDestroy_v2(event), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuEventDestroy_v2(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(d_.cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(d_.cuEventRecord(event, CreateStream()), CUDA_ERROR_INVALID_HANDLE);
}

class FakeHostMemoryTest : public FakeStreamTest {
 protected:
  static constexpr size_t kBytes = size_t{16} << 10;

  FakeHostMemoryTest()
      : memory_(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {}
  ~FakeHostMemoryTest() override { munmap(memory_, kBytes); }

  void* At(size_t offset) const { return static_cast<char*>(memory_) + offset; }
  std::atomic<uint32_t>& Word() const {
    return *static_cast<std::atomic<uint32_t>*>(memory_);
  }
  CUdeviceptr Register() {
    EXPECT_EQ(d_.cuMemHostRegister_v2(
                  memory_, kBytes,
                  kCuMemHostRegisterPortable | kCuMemHostRegisterDeviceMap),
              CUDA_SUCCESS);
    CUdeviceptr address = 0;
    EXPECT_EQ(d_.cuMemHostGetDevicePointer_v2(&address, memory_, 0),
              CUDA_SUCCESS);
    return address;
  }

  void* const memory_;
};

TEST_F(FakeHostMemoryTest, APageIsRegisteredOnceAndByItsBase) {
  EXPECT_EQ(d_.cuMemHostRegister_v2(At(100), 5'000, 0), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemHostRegister_v2(At(8'000), 10, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(d_.cuMemHostRegister_v2(At(8'192), 10, 0), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemHostUnregister(At(200)), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemHostUnregister(At(12'288)),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(d_.cuMemHostUnregister(At(100)), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuMemHostUnregister(At(100)),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_F(FakeHostMemoryTest, OnlyMappedMemoryOfASupportingDeviceIsRegistered) {
  void* const hole =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(hole, kBytes);
  EXPECT_EQ(d_.cuMemHostRegister_v2(hole, kBytes, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemHostRegister_v2(memory_, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemHostRegister_v2(memory_, kBytes, 0x100),
            CUDA_ERROR_INVALID_VALUE);
  Start("attribute=113:0");
  EXPECT_EQ(
      d_.cuMemHostRegister_v2(memory_, kBytes, kCuMemHostRegisterReadOnly),
      CUDA_ERROR_NOT_SUPPORTED);
  Start("attribute=99:0");
  EXPECT_EQ(d_.cuMemHostRegister_v2(memory_, kBytes, 0),
            CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(FakeHostMemoryTest, TheDeviceHasAnotherAddressIfItIsMapped) {
  EXPECT_EQ(d_.cuMemHostRegister_v2(memory_, kBytes, 0), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(d_.cuMemHostGetDevicePointer_v2(&address, memory_, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuMemHostUnregister(memory_), CUDA_SUCCESS);
  address = Register();
  EXPECT_NE(address, reinterpret_cast<CUdeviceptr>(memory_));
  Word() = 77;
  EXPECT_EQ(Read(address), 77);
}

TEST_F(FakeHostMemoryTest, PageableMemoryIsReadBeforeTheCallReturns) {
  const CUdeviceptr address = Allocate(4);
  const CUstream stream = CreateClosedStream();
  Word() = 1;
  EXPECT_EQ(d_.cuMemcpyHtoDAsync_v2(address, memory_, 4, stream), CUDA_SUCCESS);
  Word() = 2;
  Open();
  EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(Read(address), 1);
}

TEST_F(FakeHostMemoryTest, PageableMemoryIsWrittenBeforeTheCallReturns) {
  Start("delay_us=10000");
  const CUdeviceptr address = Allocate(4);
  const CUstream stream = CreateStream();
  for (uint32_t i = 1; i < 10; ++i) {
    EXPECT_EQ(d_.cuMemsetD8Async(address, i, 4, stream), CUDA_SUCCESS);
    EXPECT_EQ(d_.cuMemcpyDtoHAsync_v2(memory_, address, 4, stream),
              CUDA_SUCCESS);
    EXPECT_EQ(Word(), 0x01010101 * i);
  }
  Register();
  EXPECT_EQ(d_.cuMemsetD8_v2(address, 0, 4), CUDA_SUCCESS);
  const CUstream closed = CreateClosedStream();
  EXPECT_EQ(d_.cuMemcpyDtoHAsync_v2(memory_, address, 4, closed), CUDA_SUCCESS);
  EXPECT_NE(Word(), 0);
  Open();
  EXPECT_TRUE(Completes(closed));
  EXPECT_EQ(Word(), 0);
}

TEST_F(FakeHostMemoryTest, RegisteredMemoryIsReadWhenTheStreamComesToIt) {
  const CUdeviceptr address = Allocate(4);
  Register();
  const CUstream stream = CreateClosedStream();
  Word() = 1;
  EXPECT_EQ(d_.cuMemcpyHtoDAsync_v2(address, memory_, 4, stream), CUDA_SUCCESS);
  Word() = 2;
  Open();
  EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(Read(address), 2);
}

TEST_F(FakeHostMemoryTest, WordsAreWrittenInOrderAndTheCpuCanReleaseAWait) {
  const CUdeviceptr word = Register();
  const CUstream writer = CreateClosedStream();
  EXPECT_EQ(d_.cuStreamWriteValue32_v2(writer, word, 5, 0), CUDA_SUCCESS);
  EXPECT_EQ(Word(), 0);
  const CUstream waiter = CreateStream();
  EXPECT_EQ(d_.cuStreamWaitValue32_v2(waiter, word, 5, kCuStreamWaitValueGeq),
            CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
  Open();
  EXPECT_EQ(d_.cuStreamSynchronize(waiter), CUDA_SUCCESS);
  EXPECT_EQ(Word(), 5);
  // 6 is never written by a stream.
  EXPECT_EQ(d_.cuStreamWaitValue32_v2(waiter, word, 6, kCuStreamWaitValueGeq),
            CUDA_SUCCESS);
  EXPECT_EQ(d_.cuStreamQuery(waiter), CUDA_ERROR_NOT_READY);
  Word() = 7;
  EXPECT_EQ(d_.cuStreamSynchronize(waiter), CUDA_SUCCESS);
}

TEST_F(FakeHostMemoryTest, WorkUnderCaptureDoesNotRun) {
  const CUdeviceptr word = Register();
  const CUstream stream = CreateStream();
  EXPECT_EQ(
      d_.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  EXPECT_EQ(d_.cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_EQ(
      d_.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuStreamWriteValue32_v2(stream, word, 5, 0), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(d_.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
  EXPECT_THAT(fake_.Leaks(), ::testing::Contains("graph"));
  EXPECT_EQ(d_.cuGraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(d_.cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuStreamEndCapture(stream, &graph), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_EQ(Word(), 0);
}

TEST_F(FakeStreamTest, SynchronizingOrQueryingUnderCaptureSpoilsIt) {
  const CUstream stream = CreateStream();
  for (const auto spoil : {d_.cuStreamSynchronize, d_.cuStreamQuery}) {
    EXPECT_EQ(d_.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_SUCCESS);
    EXPECT_EQ(spoil(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(d_.cuStreamIsCapturing(stream, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    CUgraph graph = nullptr;
    EXPECT_EQ(d_.cuStreamEndCapture(stream, &graph),
              CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
  }
}

TEST_F(FakeHostMemoryTest, AContextHasTwoDefaultStreams) {
  const CUdeviceptr word = Register();
  for (const uintptr_t handle : {kCuStreamLegacy, kCuStreamPerThread}) {
    const auto stream = reinterpret_cast<CUstream>(handle);
    EXPECT_EQ(d_.cuStreamWriteValue32_v2(stream, word, 7, 0), CUDA_SUCCESS);
    EXPECT_EQ(d_.cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(Word(), 7);
    Word() = 0;
  }
  EXPECT_EQ(
      d_.cuStreamBeginCapture_v2(reinterpret_cast<CUstream>(kCuStreamLegacy),
                                 CU_STREAM_CAPTURE_MODE_GLOBAL),
      CUDA_ERROR_INVALID_VALUE);
}

TEST_F(FakeHostMemoryTest, GreaterOrEqualIsCyclic) {
  const CUdeviceptr word = Register();
  const CUstream stream = CreateStream();
  Word() = 2;
  EXPECT_EQ(d_.cuStreamWaitValue32_v2(stream, word, 0xfffffffe,
                                      kCuStreamWaitValueGeq),
            CUDA_SUCCESS);
  EXPECT_TRUE(Completes(stream));
}

TEST_F(FakeHostMemoryTest, WordsAreAlignedAndOfKnownMemory) {
  const CUdeviceptr word = Register();
  const CUstream stream = CreateStream();
  EXPECT_EQ(d_.cuStreamWriteValue32_v2(stream, word + 2, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  // The address of the CPU is not that of the device.
  EXPECT_EQ(d_.cuStreamWriteValue32_v2(
                stream, reinterpret_cast<CUdeviceptr>(memory_), 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(d_.cuStreamWaitValue32_v2(stream, word, 1, 3),
            CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace tenon::cuda_ipc
