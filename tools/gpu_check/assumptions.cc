// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Each row of the fake driver's table whose source is an assumption, asked of
// the driver.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/tools/gpu_check/check.h"
#include "tenon/tools/gpu_check/memory.h"

namespace tenon::gpu_check {
namespace {

using namespace cuda_ipc;  // NOLINT: CUDA's names.
using std::chrono::milliseconds;

Deadline Soon() { return Deadline::After(absl::Seconds(20)); }

// --- Contexts. ---

Outcome VirtualMemoryNeedsAContext(const Gpu& gpu) {
  const size_t unit = Granularity(gpu);
  const VirtualMemory memory(gpu, unit);
  CUcontext popped = nullptr;
  Need(gpu.d.cuCtxPopCurrent_v2(&popped), "cuCtxPopCurrent");
  const CUmemAllocationProp wanted = Properties(gpu);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult made = gpu.d.cuMemCreate(&handle, unit, &wanted, 0);
  CUdeviceptr address = 0;
  const CUresult reserved = gpu.d.cuMemAddressReserve(&address, unit, 0, 0, 0);
  int fd = -1;
  const CUresult exported = gpu.d.cuMemExportToShareableHandle(
      &fd, memory.handle(), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  if (fd >= 0) close(fd);
  Need(gpu.d.cuCtxPushCurrent_v2(popped), "cuCtxPushCurrent");
  return SeenIf(made == CUDA_ERROR_INVALID_CONTEXT &&
                    reserved == CUDA_ERROR_INVALID_CONTEXT &&
                    exported == CUDA_SUCCESS,
                absl::StrCat("create ", int{made}, ", reserve ", int{reserved},
                             ", export ", int{exported}));
}

Outcome VirtualMemoryOutlivesAContext(const Gpu& gpu) {
  const size_t unit = Granularity(gpu);
  VirtualMemory memory(gpu, unit);
  const CUdevice device = gpu.device.device().ordinal;
  CUcontext context = nullptr;
  Need(gpu.d.cuCtxPopCurrent_v2(&context), "cuCtxPopCurrent");
  Need(gpu.d.cuDevicePrimaryCtxRelease_v2(device), "release");
  Need(gpu.d.cuDevicePrimaryCtxRetain(&context, device), "retain");
  Need(gpu.d.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
  const CUresult filled = gpu.d.cuMemsetD8_v2(memory.address(), 1, unit);
  return SeenIfReturns(filled, CUDA_SUCCESS);
}

// --- Virtual memory. ---

Outcome GranularityIsTwoMebibytes(const Gpu& gpu) {
  const size_t unit = Granularity(gpu);
  CUdeviceptr address = 0;
  const CUresult reserved =
      gpu.d.cuMemAddressReserve(&address, unit / 2, 0, 0, 0);
  return SeenIf(
      unit == size_t{2} << 20 && reserved != CUDA_SUCCESS,
      absl::StrCat(unit, " bytes; half of it reserved: ", int{reserved}));
}

Outcome AMappingIsOfAWholeAllocation(const Gpu& gpu) {
  const size_t unit = Granularity(gpu);
  const CUmemAllocationProp wanted = Properties(gpu);
  CUmemGenericAllocationHandle handle = 0;
  Need(gpu.d.cuMemCreate(&handle, 2 * unit, &wanted, 0), "cuMemCreate");
  CUdeviceptr address = 0;
  Need(gpu.d.cuMemAddressReserve(&address, 2 * unit, 0, 0, 0), "reserve");
  return SeenIfReturns(gpu.d.cuMemMap(address, unit, 0, handle, 0),
                       CUDA_ERROR_INVALID_VALUE);
}

Outcome AccessIsSetForOneMapping(const Gpu& gpu) {
  const size_t unit = Granularity(gpu);
  const CUmemAllocationProp wanted = Properties(gpu);
  CUdeviceptr address = 0;
  Need(gpu.d.cuMemAddressReserve(&address, 2 * unit, 0, 0, 0), "reserve");
  for (const size_t offset : {size_t{0}, unit}) {
    CUmemGenericAllocationHandle handle = 0;
    Need(gpu.d.cuMemCreate(&handle, unit, &wanted, 0), "cuMemCreate");
    Need(gpu.d.cuMemMap(address + offset, unit, 0, handle, 0), "cuMemMap");
  }
  const CUmemAccessDesc access = Access(gpu);
  return SeenIfReturns(gpu.d.cuMemSetAccess(address, 2 * unit, &access, 1),
                       CUDA_ERROR_INVALID_VALUE);
}

Outcome AnImporterMayReadOnly(const Gpu& gpu) {
  const VirtualMemory memory(gpu, Granularity(gpu));
  const UniqueFd fd = memory.Export();
  CUmemGenericAllocationHandle handle = 0;
  Need(Import(gpu, fd.get(), &handle), "cuMemImportFromShareableHandle");
  CUdeviceptr address = 0;
  Need(gpu.d.cuMemAddressReserve(&address, memory.bytes(), 0, 0, 0), "reserve");
  Need(gpu.d.cuMemMap(address, memory.bytes(), 0, handle, 0), "cuMemMap");
  const CUmemAccessDesc access = Access(gpu, CU_MEM_ACCESS_FLAGS_PROT_READ);
  return SeenIfReturns(
      gpu.d.cuMemSetAccess(address, memory.bytes(), &access, 1), CUDA_SUCCESS);
}

Outcome AHandleInAMessageKeepsMemory(const Gpu& gpu) {
  const size_t unit = Granularity(gpu);
  absl::StatusOr<std::pair<Channel, Channel>> ends = Channel::CreatePair();
  Need(ends.status());
  {
    const VirtualMemory memory(gpu, unit);
    Need(gpu.d.cuMemsetD8_v2(memory.address(), 0x5a, unit), "cuMemsetD8");
    const UniqueFd fd = memory.Export();
    Need(ends->first.Send("memory", {fd.get()}, Soon()));
  }  // Nothing is left of it but the message.
  absl::StatusOr<Message> message = ends->second.Receive(Soon());
  Need(message.status());
  CUmemGenericAllocationHandle handle = 0;
  const CUresult imported = Import(gpu, message->fds.at(0).get(), &handle);
  if (imported != CUDA_SUCCESS) return SeenIfReturns(imported, CUDA_SUCCESS);
  const VirtualMemory again(gpu, unit, handle);
  unsigned char byte = 0;
  Need(gpu.d.cuMemcpyDtoH_v2(&byte, again.address(), 1), "cuMemcpyDtoH");
  return SeenIf(byte == 0x5a, absl::StrCat("byte ", int{byte}));
}

Outcome AReleasedHandleIsInvalid(const Gpu& gpu) {
  const CUmemAllocationProp wanted = Properties(gpu);
  CUmemGenericAllocationHandle handle = 0;
  Need(gpu.d.cuMemCreate(&handle, Granularity(gpu), &wanted, 0), "create");
  Need(gpu.d.cuMemRelease(handle), "cuMemRelease");
  return SeenIfReturns(gpu.d.cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

Outcome AnImportIsNotExported(const Gpu& gpu) {
  const VirtualMemory memory(gpu, Granularity(gpu));
  const UniqueFd fd = memory.Export();
  CUmemGenericAllocationHandle handle = 0;
  Need(Import(gpu, fd.get(), &handle), "cuMemImportFromShareableHandle");
  int again = -1;
  return SeenIfReturns(
      gpu.d.cuMemExportToShareableHandle(
          &again, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_ERROR_INVALID_VALUE);
}

Outcome AnExportSurvivesExec(const Gpu& gpu) {
  const VirtualMemory memory(gpu, Granularity(gpu));
  const UniqueFd fd = memory.Export();
  const int flags = fcntl(fd.get(), F_GETFD);
  return SeenIf((flags & FD_CLOEXEC) == 0, absl::StrCat("F_GETFD ", flags));
}

Outcome OtherDescriptorsAreNotImported(const Gpu& gpu) {
  const UniqueFd fd(memfd_create("no-memory-of-a-device", MFD_CLOEXEC));
  CUmemGenericAllocationHandle handle = 0;
  return SeenIfReturns(Import(gpu, fd.get(), &handle),
                       CUDA_ERROR_INVALID_VALUE);
}

Outcome AccessWithoutRightEndsTheContext(const Gpu& gpu) {
  const size_t unit = Granularity(gpu);
  const CUmemAllocationProp wanted = Properties(gpu);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  Need(gpu.d.cuMemCreate(&handle, unit, &wanted, 0), "cuMemCreate");
  Need(gpu.d.cuMemAddressReserve(&address, unit, 0, 0, 0), "reserve");
  Need(gpu.d.cuMemMap(address, unit, 0, handle, 0), "cuMemMap");
  Need(gpu.d.cuStreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate");
  // No access has been set.
  const CUresult filled = gpu.d.cuMemsetD8Async(address, 1, unit, stream);
  const CUresult waited = gpu.d.cuStreamSynchronize(stream);
  const CUresult later = gpu.d.cuCtxSynchronize();
  return SeenIf(filled == CUDA_SUCCESS &&
                    waited == CUDA_ERROR_ILLEGAL_ADDRESS &&
                    later == CUDA_ERROR_ILLEGAL_ADDRESS,
                absl::StrCat("the fill ", int{filled}, ", its wait ",
                             int{waited}, ", a later call ", int{later}));
}

// --- Streams. ---

// A stream that waits for a word of the CPU, for as long as this lives.
class BlockedStream {
 public:
  explicit BlockedStream(const Gpu& gpu) : gpu_(gpu) {
    Need(gpu.d.cuStreamCreate(&stream_, kCuStreamNonBlocking), "create");
    Need(gpu.d.cuMemHostRegister_v2(page_.data(), kPage,
                                    kCuMemHostRegisterDeviceMap),
         "cuMemHostRegister");
    CUdeviceptr word = 0;
    Need(gpu.d.cuMemHostGetDevicePointer_v2(&word, page_.data(), 0), "pointer");
    Need(gpu.d.cuStreamWaitValue32_v2(stream_, word, 1, kCuStreamWaitValueGeq),
         "cuStreamWaitValue32");
  }
  ~BlockedStream() {
    Open();
    gpu_.d.cuStreamSynchronize(stream_);
    gpu_.d.cuMemHostUnregister(page_.data());
    gpu_.d.cuStreamDestroy_v2(stream_);
  }
  CUstream get() const { return stream_; }
  void Open() {
    std::atomic_ref<uint32_t>(*static_cast<uint32_t*>(page_.data()))
        .store(1, std::memory_order_release);
  }

 private:
  static constexpr size_t kPage = 4096;

  const Gpu& gpu_;
  const HostPages page_{kPage};
  CUstream stream_ = nullptr;
};

Outcome ACpuStoreEndsAWait(const Gpu& gpu) {
  BlockedStream blocked(gpu);
  std::this_thread::sleep_for(milliseconds(50));
  const CUresult before = gpu.d.cuStreamQuery(blocked.get());
  blocked.Open();
  for (int i = 0; i < 1000; ++i) {
    if (gpu.d.cuStreamQuery(blocked.get()) == CUDA_SUCCESS) {
      return SeenIf(before == CUDA_ERROR_NOT_READY,
                    absl::StrCat("before the store ", int{before}));
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return SeenIf(false, "the wait had not ended after 5 s");
}

Outcome FreeWaitsForNoStream(const Gpu& gpu) {
  CUdeviceptr memory = 0;
  Need(gpu.d.cuMemAlloc_v2(&memory, 1 << 20), "cuMemAlloc");
  BlockedStream blocked(gpu);
  std::atomic<bool> done = false;
  CUcontext context = nullptr;
  Need(gpu.d.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
  std::thread frees([&] {
    gpu.d.cuCtxPushCurrent_v2(context);
    gpu.d.cuMemFree_v2(memory);
    done = true;
  });
  std::this_thread::sleep_for(milliseconds(500));
  const bool returned = done;
  blocked.Open();
  frees.join();
  return SeenIf(returned, returned ? "returned" : "waited for the stream");
}

Outcome SynchronousCopiesWaitForNoStream(const Gpu& gpu) {
  CUdeviceptr memory = 0;
  Need(gpu.d.cuMemAlloc_v2(&memory, 4096), "cuMemAlloc");
  BlockedStream blocked(gpu);
  Need(gpu.d.cuMemsetD8Async(memory, 7, 1, blocked.get()), "cuMemsetD8Async");
  unsigned char byte = 9;
  Need(gpu.d.cuMemcpyHtoD_v2(memory, &byte, 1), "cuMemcpyHtoD");
  const bool is_behind =
      gpu.d.cuStreamQuery(blocked.get()) == CUDA_ERROR_NOT_READY;
  blocked.Open();
  Need(gpu.d.cuStreamSynchronize(blocked.get()), "cuStreamSynchronize");
  Need(gpu.d.cuMemcpyDtoH_v2(&byte, memory, 1), "cuMemcpyDtoH");
  return SeenIf(is_behind && byte == 7, absl::StrCat("byte ", int{byte}));
}

Outcome NullIsNoStream(const Gpu& gpu) {
  CUdeviceptr memory = 0;
  Need(gpu.d.cuMemAlloc_v2(&memory, 4096), "cuMemAlloc");
  return SeenIfReturns(gpu.d.cuMemsetD8Async(memory, 1, 1, nullptr),
                       CUDA_ERROR_INVALID_HANDLE);
}

Outcome SynchronizingSpoilsACapture(const Gpu& gpu) {
  CUstream stream = nullptr;
  Need(gpu.d.cuStreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate");
  Need(gpu.d.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
       "cuStreamBeginCapture");
  CUstreamCaptureStatus before = CU_STREAM_CAPTURE_STATUS_NONE;
  Need(gpu.d.cuStreamIsCapturing(stream, &before), "cuStreamIsCapturing");
  const CUresult waited = gpu.d.cuStreamSynchronize(stream);
  CUstreamCaptureStatus after = CU_STREAM_CAPTURE_STATUS_NONE;
  Need(gpu.d.cuStreamIsCapturing(stream, &after), "cuStreamIsCapturing");
  CUgraph graph = nullptr;
  gpu.d.cuStreamEndCapture(stream, &graph);
  return SeenIf(before == CU_STREAM_CAPTURE_STATUS_ACTIVE &&
                    waited == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
                    after == CU_STREAM_CAPTURE_STATUS_INVALIDATED &&
                    graph == nullptr,
                absl::StrCat("status ", int{before}, ", synchronize ",
                             int{waited}, ", then status ", int{after}));
}

// A word that is written under capture waits for a launch of the graph.
Outcome WordsUnderCaptureDoNotRun(const Gpu& gpu) {
  const HostPages pages(4096);
  Need(gpu.d.cuMemHostRegister_v2(pages.data(), 4096,
                                  kCuMemHostRegisterDeviceMap),
       "register");
  CUdeviceptr address = 0;
  Need(gpu.d.cuMemHostGetDevicePointer_v2(&address, pages.data(), 0),
       "cuMemHostGetDevicePointer");
  CUstream stream = nullptr;
  Need(gpu.d.cuStreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate");
  Need(gpu.d.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
       "cuStreamBeginCapture");
  const CUresult wrote = gpu.d.cuStreamWriteValue32_v2(
      stream, address, 1, kCuStreamWriteValueDefault);
  CUgraph graph = nullptr;
  const CUresult ended = gpu.d.cuStreamEndCapture(stream, &graph);
  Need(gpu.d.cuStreamSynchronize(stream), "cuStreamSynchronize");
  const uint32_t word =
      std::atomic_ref<uint32_t>(*static_cast<uint32_t*>(pages.data()));
  return SeenIf(wrote == CUDA_SUCCESS && ended == CUDA_SUCCESS && word == 0,
                absl::StrCat("write ", int{wrote}, ", end ", int{ended},
                             ", word ", word));
}

// --- Registered memory. ---

Outcome DevicePointersNeedDeviceMap(const Gpu& gpu) {
  const HostPages pages(4096);
  Need(gpu.d.cuMemHostRegister_v2(pages.data(), 4096, 0), "register");
  CUdeviceptr address = 0;
  return SeenIfReturns(
      gpu.d.cuMemHostGetDevicePointer_v2(&address, pages.data(), 0),
      CUDA_ERROR_INVALID_VALUE);
}

Outcome ReadOnlyMemoryNeedsTheFlag(const Gpu& gpu) {
  const HostPages pages(4096);
  if (mprotect(pages.data(), 4096, PROT_READ) != 0) throw Broken("mprotect()");
  const CUresult without = gpu.d.cuMemHostRegister_v2(
      pages.data(), 4096, kCuMemHostRegisterPortable);
  const CUresult with = gpu.d.cuMemHostRegister_v2(
      pages.data(), 4096,
      kCuMemHostRegisterPortable | kCuMemHostRegisterReadOnly);
  return SeenIf(without == CUDA_ERROR_INVALID_VALUE && with == CUDA_SUCCESS,
                absl::StrCat("without ", int{without}, ", with ", int{with}));
}

Outcome UnmappedMemoryStaysRegistered(const Gpu& gpu) {
  const HostPages pages(4096);
  Need(gpu.d.cuMemHostRegister_v2(pages.data(), 4096, 0), "register");
  if (munmap(pages.data(), 4096) != 0) throw Broken("munmap()");
  return SeenIfReturns(gpu.d.cuMemHostUnregister(pages.data()),
                       CUDA_ERROR_INVALID_VALUE);
}

// --- The library. ---

Outcome OldFunctionsFail(const Gpu& gpu) {
  void* const library = dlopen(gpu.d.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  using Alloc = CUresult (*)(unsigned* address, unsigned bytes);
  const auto old = reinterpret_cast<Alloc>(dlsym(library, "cuMemAlloc"));
  if (old == nullptr) return SeenIf(false, "cuMemAlloc is not exported");
  unsigned address[2] = {};
  return SeenIf(old(address, 4096) != CUDA_SUCCESS);
}

Outcome TwoDevices(const Gpu&) {
  return NotRun("needs two devices without access to each other's memory");
}
// The result of a call in a forked child; empty if it does not return. The
// child makes this call alone, since other threads may have held locks.
std::optional<CUresult> ResultInAChild(const std::function<CUresult()>& call) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Broken("pipe2() failed");
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) throw Broken("fork() failed");
  if (child == 0) {
    const CUresult result = call();
    _exit(write(write_end.get(), &result, sizeof(result)) != sizeof(result));
  }
  write_end.Reset();  // The end of a child that has crashed is seen, too.
  pollfd answer = {.fd = read_end.get(), .events = POLLIN, .revents = 0};
  const bool returned = poll(&answer, 1, /*timeout=*/20'000) == 1;
  kill(child, SIGKILL);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  CUresult result = CUDA_SUCCESS;
  if (!returned ||
      read(read_end.get(), &result, sizeof(result)) != sizeof(result)) {
    return std::nullopt;
  }
  return result;
}

Outcome AfterAFork(const Gpu& gpu) {
  const std::optional<CUresult> result = ResultInAChild([&gpu] {
    CUdeviceptr memory = 0;
    return gpu.d.cuMemAlloc_v2(&memory, size_t{2} << 20);
  });
  if (!result.has_value()) {
    return SeenIf(false, "cuMemAlloc of the child does not return, by 20 s");
  }
  return SeenIfReturns(*result, CUDA_ERROR_NOT_INITIALIZED);
}

}  // namespace

std::vector<Check> Assumptions() {
  return {
      {"A1", "Before `cuInit`, and in a process forked after it", AfterAFork},
      {"A2", "`cuMem*` of virtual memory need a current context",
       VirtualMemoryNeedsAContext},
      {"A3", "The last release of a primary context frees",
       VirtualMemoryOutlivesAContext},
      {"A4", "Granularity 2 MiB", GranularityIsTwoMebibytes},
      {"A5", "A mapping is of a whole allocation",
       AMappingIsOfAWholeAllocation},
      {"A6", "Access is set for exactly one mapping", AccessIsSetForOneMapping},
      {"A7", "Read-only access can be set", AnImporterMayReadOnly},
      {"A8", "A shareable handle in an unread message counts",
       AHandleInAMessageKeepsMemory},
      {"A9", "A handle whose references are released",
       AReleasedHandleIsInvalid},
      {"A10", "Export of an imported handle", AnImportIsNotExported},
      {"A11", "An exported descriptor is not close-on-exec",
       AnExportSurvivesExec},
      {"A12", "Import of other descriptors", OtherDescriptorsAreNotImported},
      {"A13", "Access without right", AccessWithoutRightEndsTheContext},
      {"A14", "`cuMemcpy` between devices", TwoDevices},
      {"A15", "`cuMemFree` does not wait for streams", FreeWaitsForNoStream},
      {"A20", "A stream's work is in order", SynchronousCopiesWaitForNoStream},
      {"A21", "Null is no stream", NullIsNoStream},
      {"A23", "A CPU's store ends a wait", ACpuStoreEndsAWait},
      {"A24", "A device pointer needs DEVICEMAP", DevicePointersNeedDeviceMap},
      {"A25", "Memory that the CPU maps read-only needs READ_ONLY",
       ReadOnlyMemoryNeedsTheFlag},
      {"A26", "Memory that was unmapped stays registered",
       UnmappedMemoryStaysRegistered},
      {"A27", "Functions of old ABIs under plain names", OldFunctionsFail},
      {"A28", "Synchronizing or querying a stream under capture",
       SynchronizingSpoilsACapture},
      {"A29", "Work that is enqueued under capture, words included",
       WordsUnderCaptureDoNotRun},
  };
}

}  // namespace tenon::gpu_check
