// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Checks of two processes, one of which ends. The first process checks. The
// second one exports, imports, records or counts: it plays a role below.

#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/tools/gpu_check/check.h"
#include "tenon/tools/gpu_check/memory.h"
#include "tenon/tools/gpu_check/second.h"

namespace tenon::gpu_check {
namespace {

using namespace cuda_ipc;  // NOLINT: CUDA's names.
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kBytes = size_t{2} << 20;
constexpr unsigned char kFilled = 0x5a;
// Longer than a device needs for what it was given before.
constexpr milliseconds kLong{5000};

CUstream MakeStream(const Gpu& gpu) {
  CUstream stream = nullptr;
  Need(gpu.d.cuStreamCreate(&stream, kCuStreamNonBlocking), "cuStreamCreate");
  return stream;
}

bool BecomesIdle(const Gpu& gpu, CUstream stream, milliseconds patience) {
  const auto end = steady_clock::now() + patience;
  do {
    if (gpu.d.cuStreamQuery(stream) == CUDA_SUCCESS) return true;
    std::this_thread::sleep_for(milliseconds(5));
  } while (steady_clock::now() < end);
  return false;
}

// --- Roles of the second process. ---

struct Exported {
  CUdeviceptr memory = 0;
  CUipcMemHandle handle = {};
};

Exported Export(const Gpu& gpu) {
  Exported made;
  Need(gpu.d.cuMemAlloc_v2(&made.memory, kBytes), "cuMemAlloc");
  Need(gpu.d.cuMemsetD8_v2(made.memory, kFilled, kBytes), "cuMemsetD8");
  Need(gpu.d.cuIpcGetMemHandle(&made.handle, made.memory), "cuIpcGetMemHandle");
  return made;
}

CUresult Open(const Gpu& gpu, const CUipcMemHandle& handle,
              CUdeviceptr* memory) {
  return gpu.d.cuIpcOpenMemHandle_v2(memory, handle,
                                     kCuIpcMemLazyEnablePeerAccess);
}

// Exports two allocations, and frees them when it reads a byte.
void PlayExporter(const Gpu& gpu, const Wire& first, int) {
  const Exported both[] = {Export(gpu), Export(gpu)};
  for (const Exported& made : both) first.Write(made.handle);
  first.Read<char>();
  for (const Exported& made : both) {
    Need(gpu.d.cuMemFree_v2(made.memory), "cuMemFree");
  }
  first.Write('f');
  first.AwaitEnd();
}

// Exports an allocation, and ends with it.
void PlayMortal(const Gpu& gpu, const Wire& first, int) {
  first.Write(Export(gpu).handle);
  first.AwaitEnd();
}

// Opens an allocation, and tells what an export of it returns.
void PlayImporter(const Gpu& gpu, const Wire& first, int) {
  CUdeviceptr memory = 0;
  Need(Open(gpu, first.Read<CUipcMemHandle>(), &memory), "cuIpcOpenMemHandle");
  CUipcMemHandle again = {};
  first.Write(gpu.d.cuIpcGetMemHandle(&again, memory));
  first.AwaitEnd();
}

// Records an event of a stream that never comes to it, and destroys the event
// when it reads a byte.
void PlayRecorder(const Gpu& gpu, const Wire& first, int) {
  CUevent event = nullptr;
  const CUstream stream = MakeStream(gpu);
  Need(
      gpu.d.cuEventCreate(&event, kCuEventInterprocess | kCuEventDisableTiming),
      "cuEventCreate");
  CUipcEventHandle handle = {};
  Need(gpu.d.cuIpcGetEventHandle(&handle, event), "cuIpcGetEventHandle");
  Need(gpu.d.cuLaunchHostFunc(
           stream,
           [](void*) { std::this_thread::sleep_for(std::chrono::hours(1)); },
           nullptr),
       "cuLaunchHostFunc");
  Need(gpu.d.cuEventRecord(event, stream), "cuEventRecord");
  first.Write(handle);
  first.Read<char>();
  Need(gpu.d.cuEventDestroy_v2(event), "cuEventDestroy");
  first.Write('d');
  first.AwaitEnd();
}

// Adds 1 again and again, for a number of nanoseconds.
constexpr char kCountOn[] = R"(
.version 6.4
.target sm_50
.address_size 64
.visible .entry count_on(.param .u64 counter, .param .u64 duration) {
  .reg .pred %p;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [counter];
  cvta.to.global.u64 %d1, %d1;
  ld.param.u64 %d2, [duration];
  mov.u64 %d3, %globaltimer;
  add.u64 %d2, %d2, %d3;
again:
  red.global.add.u32 [%d1], 1;
  mov.u64 %d3, %globaltimer;
  setp.lt.u64 %p, %d3, %d2;
  @%p bra again;
  ret;
}
)";

// A kernel counts in imported memory, for 20 s.
void PlayCounter(const Gpu& gpu, const Wire& first, int memory) {
  CUmemGenericAllocationHandle handle = 0;
  Need(Import(gpu, memory, &handle), "cuMemImportFromShareableHandle");
  const VirtualMemory imported(gpu, Granularity(gpu), handle);
  CUmodule module = nullptr;
  CUfunction count_on = nullptr;
  Need(gpu.d.cuModuleLoadData(&module, kCountOn), "cuModuleLoadData");
  Need(gpu.d.cuModuleGetFunction(&count_on, module, "count_on"), "function");
  CUdeviceptr counter = imported.address();
  uint64_t nanoseconds = 20'000'000'000;
  void* arguments[] = {&counter, &nanoseconds};
  Need(gpu.d.cuLaunchKernel(count_on, 1, 1, 1, 1, 1, 1, 0, MakeStream(gpu),
                            arguments, nullptr),
       "cuLaunchKernel");
  first.Write('c');
  first.AwaitEnd();
}

// --- Checks of the first process. ---

bool HasLegacyIpc(const Gpu& gpu) {
  return CheckFeature(gpu.d, DriverFeature::kLegacyIpc).ok();
}
Outcome NoLegacyIpc() { return NotRun("the driver has no legacy handles"); }

Outcome AnExporterFrees(const Gpu& gpu) {
  if (!HasLegacyIpc(gpu)) return NoLegacyIpc();
  SecondProcess exporter("exporter");
  const auto opened = exporter.wire().Read<CUipcMemHandle>();
  const auto late = exporter.wire().Read<CUipcMemHandle>();
  CUdeviceptr memory = 0;
  Need(Open(gpu, opened, &memory), "cuIpcOpenMemHandle");
  exporter.wire().Write('f');
  exporter.wire().Read<char>();
  unsigned char byte = 0;
  const CUresult read = gpu.d.cuMemcpyDtoH_v2(&byte, memory, 1);
  CUdeviceptr other = 0;
  const CUresult reopened = Open(gpu, late, &other);
  return SeenIf(
      read == CUDA_SUCCESS && byte == 0xdd &&
          reopened == CUDA_ERROR_INVALID_HANDLE,
      absl::StrCat("a copy returned ", int{read}, " and byte ", int{byte},
                   " (0 and 221), opening it ", int{reopened}, " (400)"));
}

Outcome AnExporterEnds(const Gpu& gpu) {
  if (!HasLegacyIpc(gpu)) return NoLegacyIpc();
  SecondProcess exporter("mortal");
  CUdeviceptr memory = 0;
  Need(Open(gpu, exporter.wire().Read<CUipcMemHandle>(), &memory),
       "cuIpcOpenMemHandle");
  exporter.End();
  unsigned char byte = 0;
  return SeenIfReturns(gpu.d.cuMemcpyDtoH_v2(&byte, memory, 1),
                       CUDA_ERROR_ILLEGAL_ADDRESS);
}

Outcome AnImporterIsKilled(const Gpu& gpu) {
  if (!HasLegacyIpc(gpu)) return NoLegacyIpc();
  const Exported made = Export(gpu);
  SecondProcess importer("importer");
  importer.wire().Write(made.handle);
  importer.wire().Read<CUresult>();
  importer.Kill();
  unsigned char byte = 0;
  const CUresult read = gpu.d.cuMemcpyDtoH_v2(&byte, made.memory, 1);
  const CUresult freed = gpu.d.cuMemFree_v2(made.memory);
  return SeenIf(
      read == CUDA_SUCCESS && byte == kFilled && freed == CUDA_SUCCESS,
      absl::StrCat("a copy returned ", int{read}, ", freeing ", int{freed}));
}

Outcome AnImporterExports(const Gpu& gpu) {
  if (!HasLegacyIpc(gpu)) return NoLegacyIpc();
  SecondProcess importer("importer");
  importer.wire().Write(Export(gpu).handle);
  const auto again = importer.wire().Read<CUresult>();
  return SeenIf(again != CUDA_SUCCESS, absl::StrCat("CUresult ", int{again}));
}

// A stream that waits for the event of a recorder.
CUstream AwaitItsEvent(const Gpu& gpu, const SecondProcess& recorder) {
  CUevent event = nullptr;
  Need(gpu.d.cuIpcOpenEventHandle(&event,
                                  recorder.wire().Read<CUipcEventHandle>()),
       "cuIpcOpenEventHandle");
  const CUstream stream = MakeStream(gpu);
  Need(gpu.d.cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent");
  if (BecomesIdle(gpu, stream, milliseconds(100))) {
    throw Broken("the stream did not wait for the event");
  }
  return stream;
}

Outcome HasWaitedForLong(const Gpu& gpu, CUstream stream) {
  return BecomesIdle(gpu, stream, kLong)
             ? SeenIf(false, "the stream came further")
             : SeenIf(true, "the stream still waits after 5 s");
}

Outcome ACreatorDestroysItsEvent(const Gpu& gpu) {
  SecondProcess recorder("recorder");
  const CUstream stream = AwaitItsEvent(gpu, recorder);
  recorder.wire().Write('d');
  recorder.wire().Read<char>();
  return HasWaitedForLong(gpu, stream);
}

Outcome ARecorderIsKilled(const Gpu& gpu) {
  SecondProcess recorder("recorder");
  const CUstream stream = AwaitItsEvent(gpu, recorder);
  recorder.Kill();
  return HasWaitedForLong(gpu, stream);
}

// For how long a block of a killed process may be written: pools keep it for
// 100 ms.
Outcome AKilledKernelEnds(const Gpu& gpu) {
  const absl::Status has = CheckFeature(gpu.d, DriverFeature::kKernels);
  if (!has.ok()) return NotRun(has.message());
  const VirtualMemory memory(gpu, Granularity(gpu));
  Need(gpu.d.cuMemsetD8_v2(memory.address(), 0, memory.bytes()), "cuMemsetD8");
  const auto count = [&] {
    uint32_t counted = 0;
    Need(gpu.d.cuMemcpyDtoH_v2(&counted, memory.address(), sizeof(counted)),
         "cuMemcpyDtoH");
    return counted;
  };
  SecondProcess counter("counter", memory.Export().get());
  counter.wire().Read<char>();
  for (const auto end = steady_clock::now() + kLong; count() == 0;) {
    if (steady_clock::now() > end) throw Broken("the kernel did not begin");
  }
  kill(counter.pid(), SIGKILL);
  const auto killed = steady_clock::now();
  counter.Kill();
  const auto ended = steady_clock::now();
  auto written = ended;
  uint32_t before = count();
  while (steady_clock::now() - written < milliseconds(500)) {
    const uint32_t now = count();
    if (now != before) written = steady_clock::now();
    before = now;
  }
  const auto in_ms = [](auto duration) {
    return std::chrono::duration_cast<milliseconds>(duration).count();
  };
  return PassIf(written - ended < milliseconds(100),
                absl::StrCat("the process ended ", in_ms(ended - killed),
                             " ms after the signal, its kernel wrote for ",
                             in_ms(written - ended), " ms more"));
}

}  // namespace

void PlaySecond(absl::string_view role, const Gpu& gpu, const Wire& first,
                int memory) {
  using Role = void (*)(const Gpu&, const Wire&, int);
  static constexpr std::pair<absl::string_view, Role> kRoles[] = {
      {"counter", PlayCounter},   {"exporter", PlayExporter},
      {"importer", PlayImporter}, {"mortal", PlayMortal},
      {"recorder", PlayRecorder},
  };
  for (const auto& [name, play] : kRoles) {
    if (name == role) return play(gpu, first, memory);
  }
  throw Broken(absl::StrCat("no role ", role));
}

std::vector<Check> Processes() {
  return {
      {"G4", "a killed process' kernel ends with it", AKilledKernelEnds},
      {"G8", "an event of a killed recorder holds the stream that waits",
       ARecorderIsKilled},
  };
}

std::vector<Check> AssumptionsOfProcesses() {
  return {
      {"A16", "An exporter that frees", AnExporterFrees},
      {"A17", "An exporter that has ended", AnExporterEnds},
      {"A18", "A killed importer changes nothing", AnImporterIsKilled},
      {"A19", "An importer cannot export again", AnImporterExports},
      {"A22", "A creator that destroys", ACreatorDestroysItsEvent},
  };
}

}  // namespace tenon::gpu_check
