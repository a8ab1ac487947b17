// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Figures of a device and its driver. Of the fake driver they mean nothing,
// and are only run to test this program.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/pinned_memory.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/tools/gpu_check/check.h"
#include "tenon/tools/gpu_check/memory.h"

namespace tenon::gpu_check {
namespace {

using cuda_ipc::CUdeviceptr;
using cuda_ipc::CUevent;
using cuda_ipc::CUmemGenericAllocationHandle;
using cuda_ipc::CUstream;

// Fewer rounds and bytes for the fake driver, which runs in tests.
int Rounds(const Gpu& gpu) { return gpu.is_fake ? 2 : 20; }
size_t CopyBytes(const Gpu& gpu) {
  return size_t{gpu.is_fake ? 4u : 256u} << 20;
}

// The median of the seconds that `body` takes.
double Seconds(const Gpu& gpu, const std::function<void()>& body) {
  body();  // Warms up.
  std::vector<double> taken;
  for (int i = 0; i < Rounds(gpu); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    body();
    taken.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count());
  }
  const auto middle = taken.begin() + static_cast<int64_t>(taken.size() / 2);
  std::nth_element(taken.begin(), middle, taken.end());
  return *middle;
}

Outcome Microseconds(const Gpu& gpu, const std::function<void()>& body) {
  return Figure(Seconds(gpu, body) * 1e6, "us");
}

Outcome GigabytesPerSecond(const Gpu& gpu, size_t bytes,
                           const std::function<void()>& body) {
  return Figure(static_cast<double>(bytes) / Seconds(gpu, body) / 1e9, "GB/s");
}

CUstream NewStream(const Gpu& gpu) {
  CUstream stream = nullptr;
  Need(gpu.d.cuStreamCreate(&stream, cuda_ipc::kCuStreamNonBlocking),
       "cuStreamCreate");
  return stream;
}

Outcome ToDevice(const Gpu& gpu, const void* from) {
  const size_t bytes = CopyBytes(gpu);
  const CUstream stream = NewStream(gpu);
  const VirtualMemory there(gpu, bytes);
  return GigabytesPerSecond(gpu, bytes, [&] {
    Need(gpu.d.cuMemcpyHtoDAsync_v2(there.address(), from, bytes, stream),
         "cuMemcpyHtoDAsync");
    Need(gpu.d.cuStreamSynchronize(stream), "cuStreamSynchronize");
  });
}

Outcome FromPageable(const Gpu& gpu) {
  const HostPages pages(CopyBytes(gpu));
  return ToDevice(gpu, pages.data());
}

Outcome FromRegistered(const Gpu& gpu) {
  const HostPages pages(CopyBytes(gpu));
  Need(gpu.d.cuMemHostRegister_v2(pages.data(), CopyBytes(gpu),
                                  cuda_ipc::kCuMemHostRegisterPortable),
       "cuMemHostRegister");
  return ToDevice(gpu, pages.data());
}

Outcome FromPinnedArena(const Gpu& gpu) {
  absl::StatusOr<std::shared_ptr<Arena>> arena = Arena::Create();
  Need(arena.status());
  const absl::StatusOr<Tensor> tensor =
      CreateTensor(**arena, kDtypeOf<uint8_t>,
                   {static_cast<int64_t>(CopyBytes(gpu))}, Deadline::Passed());
  Need(tensor.status());
  Need(cuda_ipc::PinMemory(*tensor));
  return ToDevice(gpu, tensor->data<const uint8_t>()->data());
}

Outcome Registering(const Gpu& gpu) {
  const size_t bytes = CopyBytes(gpu);
  const HostPages pages(bytes);
  std::fill_n(static_cast<char*>(pages.data()), bytes, char{1});
  const double seconds = Seconds(gpu, [&] {
    Need(gpu.d.cuMemHostRegister_v2(pages.data(), bytes, 0), "register");
    Need(gpu.d.cuMemHostUnregister(pages.data()), "unregister");
  });
  return Figure(seconds * 1e3 * (1 << 30) / static_cast<double>(bytes),
                "ms/GiB, with the unregistration");
}

Outcome Between(const Gpu& gpu, CUdeviceptr to, CUdeviceptr from) {
  const size_t bytes = CopyBytes(gpu);
  const CUstream stream = NewStream(gpu);
  return GigabytesPerSecond(gpu, bytes, [&] {
    Need(gpu.d.cuMemcpyDtoDAsync_v2(to, from, bytes, stream), "copy");
    Need(gpu.d.cuStreamSynchronize(stream), "cuStreamSynchronize");
  });
}

Outcome OnDevice(const Gpu& gpu) {
  const VirtualMemory from(gpu, CopyBytes(gpu));
  const VirtualMemory to(gpu, CopyBytes(gpu));
  return Between(gpu, to.address(), from.address());
}

Outcome FromImported(const Gpu& gpu) {
  const VirtualMemory made(gpu, CopyBytes(gpu));
  const UniqueFd fd = made.Export();
  CUmemGenericAllocationHandle handle = 0;
  Need(Import(gpu, fd.get(), &handle), "cuMemImportFromShareableHandle");
  const VirtualMemory from(gpu, CopyBytes(gpu), handle);
  const VirtualMemory to(gpu, CopyBytes(gpu));
  return Between(gpu, to.address(), from.address());
}

Outcome Creating(const Gpu& gpu) {
  return Microseconds(gpu,
                      [&] { const VirtualMemory made(gpu, CopyBytes(gpu)); });
}

Outcome Exporting(const Gpu& gpu) {
  const VirtualMemory made(gpu, Granularity(gpu));
  return Microseconds(gpu, [&] { made.Export().Reset(); });
}

Outcome Importing(const Gpu& gpu) {
  const VirtualMemory made(gpu, Granularity(gpu));
  const UniqueFd fd = made.Export();
  return Microseconds(gpu, [&] {
    CUmemGenericAllocationHandle handle = 0;
    Need(Import(gpu, fd.get(), &handle), "cuMemImportFromShareableHandle");
    const VirtualMemory imported(gpu, made.bytes(), handle);
  });
}

Outcome RecordingAndWaiting(const Gpu& gpu) {
  const CUstream first = NewStream(gpu);
  const CUstream second = NewStream(gpu);
  CUevent event = nullptr;
  Need(gpu.d.cuEventCreate(&event, cuda_ipc::kCuEventDisableTiming), "event");
  return Microseconds(gpu, [&] {
    Need(gpu.d.cuEventRecord(event, first), "cuEventRecord");
    Need(gpu.d.cuStreamWaitEvent(second, event, 0), "cuStreamWaitEvent");
  });
}

Outcome HostFunction(const Gpu& gpu) {
  const CUstream stream = NewStream(gpu);
  return Microseconds(gpu, [&] {
    Need(gpu.d.cuLaunchHostFunc(
             stream, [](void*) {}, nullptr),
         "launch");
    Need(gpu.d.cuStreamSynchronize(stream), "cuStreamSynchronize");
  });
}

}  // namespace

std::vector<Check> Figures() {
  return {
      {"F1", "host to device, pageable memory", FromPageable},
      {"F2", "host to device, registered memory of one process",
       FromRegistered},
      {"F3", "host to device, a pinned arena (aim: 0.95 of F2)",
       FromPinnedArena},
      {"F4", "registration of memory that is there", Registering},
      {"F5", "on the device, local memory", OnDevice},
      {"F6", "on the device, imported memory (aim: 0.98 of F5)", FromImported},
      {"F7", "create, map and release virtual memory", Creating},
      {"F8", "export a descriptor", Exporting},
      {"F9", "import, map and release 2 MiB", Importing},
      {"F10", "record an event and have a stream wait for it",
       RecordingAndWaiting},
      {"F11", "a host function, until the CPU knows that it has run",
       HostFunction},
  };
}

}  // namespace tenon::gpu_check
