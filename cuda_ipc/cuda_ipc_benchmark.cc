// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of tensors of a DevicePool, each beside that of the same code with
// tensors of an Arena of the CPU, in turns in the same processes. Runs with the
// fake driver, whose calls it counts; with TENON_TEST_DRIVER=machine, with the
// machine's. Counters:
//   device_ns, cpu_ns  medians, for one tensor
//   ratio              median of the ratios of the turns
//   least_ratio        of the fastest turns: without the machine's other work
//   driver_calls       for one tensor, of both processes
// RoundTrip: a tensor to a process that spins and sends it back, both times
// claimed and released. Stream: new tensors to a process that spins. OneThread:
// put and get without another process, so that no cache line moves. Block:
// allocation and release. All create tensors by CreateTensor() of an arena;
// StreamOfPool and BlockOfPool by DevicePool::CreateTensor() on the device.
// Segment: create, import and release of a DeviceAllocation, beside the bare
// calls of the driver for it; export_ns is the bare call. An import is by the
// process that exports, which the driver does not treat differently.
// Without a driver, a device or a second core nothing is measured, and the
// label says why.

#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_allocation.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/must.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/two_cores.h"

namespace tenon::cuda_ipc {
namespace {

using A = StdAtomics;

constexpr int kTurn = 512;  // Tensors per turn.
constexpr int kWarmTurns = 4;
constexpr int64_t kBytes = 4096;

Tensor Spin(TensorQueue& queue) {
  for (;;) {
    auto got = Must(queue.TryGetTensor());
    if (got) return *std::move(got);
    A::Pause();
  }
}

// The child's task in its next turn.
enum Order : uint64_t { kEcho, kTake, kEnd };

struct Shared {
  alignas(64) SharedWord<uint64_t> turn{0};
  SharedWord<uint64_t> order{kEcho};
  alignas(64) SharedWord<uint64_t> done{0};  // Turns.
  SharedWord<uint64_t> calls{0};             // Of the child's driver.
};

// This process, its child and their driver. Both load the driver after the
// fork.
class World {
 public:
  static World& OfProcess() {
    static World world;
    return world;
  }

  ~World() {
    if (!child_) return;
    Begin(kEnd);
    TENON_CHECK(child_->EndsWell(), "the child did not end well");
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Why nothing can be measured; else empty.
  const std::string& missing() const { return missing_; }
  bool has_fake() const { return fake_.has_value(); }
  bool has_two_cores() const { return cores_.are_there(); }
  void PinToFirstCore() const { cores_.PinTo(0); }

  // Of one process, and of both.
  uint64_t OwnCalls() const { return fake_ ? fake_->AllCalls() : 0; }
  uint64_t Calls() const {
    return OwnCalls() + A::Load(shared_->calls, std::memory_order_relaxed);
  }

  void Begin(Order order) {
    A::Store(shared_->order, order, std::memory_order_relaxed);
    A::Store(shared_->turn, ++turn_, std::memory_order_release);
  }
  void End() {
    while (A::Load(shared_->done, std::memory_order_acquire) != turn_) {
      A::Pause();
    }
  }

  Tensor OnDevice() { return Create(*device_arena_); }
  Tensor OnCpu() { return Create(*arena_); }
  Tensor OfPool() {
    return Must(
        pool_->CreateTensor(kDtypeOf<uint8_t>, {kBytes}, Deadline::Never()));
  }
  const DeviceContext& device() const { return pool_->device(); }
  TensorQueue& there() { return *there_; }
  TensorQueue& back() { return *back_; }

 private:
  World() {
    const char* const driver = getenv("TENON_TEST_DRIVER");
    if (driver == nullptr || absl::string_view(driver) != "machine") {
      fake_.emplace();
      fake_->SetEnvironment();
    } else {
      Probe();
      if (!missing_.empty()) return;
    }
    there_ = Must(TensorQueue::Create());
    back_ = Must(TensorQueue::Create());
    QueueHandle from = Must(there_->Share());
    QueueHandle to = Must(back_->Share());
    child_ = std::make_unique<ForkedChild>(Must(ForkedChild::Fork(
        {.name = "child", .watchdog = absl::Minutes(10)},
        [&](const Reporter&) { RunChild(std::move(from), std::move(to)); })));
    second_thread_.emplace();
    // One segment for all, so that none is made while others are measured.
    constexpr size_t kSegment = size_t{32} << 20;
    arena_ = Must(Arena::Create({.segment_bytes = kSegment}));
    pool_ = Must(DevicePool::Create(0, {.first_segment_bytes = kSegment}));
    device_arena_ = pool_->arena();
  }

  static Tensor Create(Arena& arena) {
    return Must(
        CreateTensor(arena, kDtypeOf<uint8_t>, {kBytes}, Deadline::Never()));
  }

  // In a child, since this process has to fork before it loads the driver.
  void Probe() {
    ForkedChild probe =
        Must(ForkedChild::Fork({.name = "probe", .watchdog = absl::Minutes(1)},
                               [](const Reporter& reporter) {
                                 const absl::Status made =
                                     DevicePool::Create(0).status();
                                 if (!made.ok()) reporter.Note(made.ToString());
                               }));
    TENON_CHECK(probe.EndsWell(), "the probe did not end well");
    for (const auto& [note, count] : probe.report().notes) missing_ = note;
  }

  void RunChild(QueueHandle from, QueueHandle to) {
    if (cores_.are_there()) cores_.PinTo(1);
    const SecondThread second_thread;
    const auto in = Must(TensorQueue::Open(std::move(from)));
    const auto out = Must(TensorQueue::Open(std::move(to)));
    for (uint64_t turn = 1;; ++turn) {
      AwaitTurn(turn);
      const uint64_t order = A::Load(shared_->order, std::memory_order_relaxed);
      if (order == kEnd) return;
      for (int i = 0; i < kTurn; ++i) {
        Tensor tensor = Spin(*in);
        if (order == kEcho) Check(out->Put(tensor, Deadline::Never()));
      }
      A::Store(shared_->calls, OwnCalls(), std::memory_order_relaxed);
      A::Store(shared_->done, turn, std::memory_order_release);
    }
  }
  // Sleeps between benchmarks, but not between turns.
  void AwaitTurn(uint64_t turn) {
    for (int spins = 0;
         A::Load(shared_->turn, std::memory_order_acquire) != turn; ++spins) {
      if (spins < 1'000'000) {
        A::Pause();
      } else {
        absl::SleepFor(absl::Microseconds(100));
      }
    }
  }

  const TwoCores cores_;
  const SharedObject<Shared> shared_;
  std::optional<FakeDriver> fake_;
  std::string missing_;
  std::unique_ptr<TensorQueue> there_;
  std::unique_ptr<TensorQueue> back_;
  std::unique_ptr<ForkedChild> child_;
  std::optional<SecondThread> second_thread_;
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<DevicePool> pool_;
  std::shared_ptr<Arena> device_arena_;
  uint64_t turn_ = 0;
};

// Whether it can be measured; else labels it.
bool CanMeasure(benchmark::State& state, World& world) {
  std::string missing = world.missing();
  if (missing.empty() && !world.has_two_cores()) missing = "there is one core";
  if (missing.empty()) return true;
  state.SetLabel(absl::StrCat("not measured: ", missing));
  for (auto _ : state) {
  }
  return false;
}

using MakeTensor = Tensor (World::*)();

// In turns; turn(world, make) is the same code for both memories, for kTurn
// tensors.
template <typename Turn>
void Measure(benchmark::State& state, const Turn& turn,
             MakeTensor on_device = &World::OnDevice) {
  World& world = World::OfProcess();
  if (!CanMeasure(state, world)) return;
  const KeepAffinity affinity;
  world.PinToFirstCore();
  for (int i = 0; i < kWarmTurns; ++i) {
    turn(world, &World::OnCpu);
    turn(world, on_device);
  }
  Samples cpu_ns, device_ns, ratios;
  uint64_t calls = 0;
  bool device_first = false;
  for (auto _ : state) {
    double cpu = 0;
    double device = 0;
    const auto run_on_device = [&] {
      const uint64_t before = world.Calls();
      device =
          Nanoseconds(CLOCK_MONOTONIC, [&] { turn(world, on_device); }) / kTurn;
      calls += world.Calls() - before;
    };
    if (device_first) run_on_device();
    cpu = Nanoseconds(CLOCK_MONOTONIC, [&] { turn(world, &World::OnCpu); }) /
          kTurn;
    if (!device_first) run_on_device();
    device_first = !device_first;
    cpu_ns.Add(cpu);
    device_ns.Add(device);
    ratios.Add(device / cpu);
  }
  state.counters["cpu_ns"] = cpu_ns.Median();
  state.counters["device_ns"] = device_ns.Median();
  state.counters["ratio"] = ratios.Median();
  state.counters["least_ratio"] = device_ns.Least() / cpu_ns.Least();
  if (!world.has_fake()) return;
  state.counters["driver_calls"] =
      static_cast<double>(calls) /
      (static_cast<double>(state.iterations()) * kTurn);
}

void BM_RoundTrip(benchmark::State& state) {
  Measure(state, [](World& world, MakeTensor make) {
    const Tensor tensor = (world.*make)();
    world.Begin(kEcho);
    for (int i = 0; i < kTurn; ++i) {
      Check(world.there().Put(tensor, Deadline::Never()));
      Spin(world.back());
    }
    world.End();
  });
}
BENCHMARK(BM_RoundTrip)->UseRealTime();

void Stream(World& world, MakeTensor make) {
  world.Begin(kTake);
  for (int i = 0; i < kTurn; ++i) {
    Check(world.there().Put((world.*make)(), Deadline::Never()));
  }
  world.End();
}

void BM_Stream(benchmark::State& state) { Measure(state, Stream); }
BENCHMARK(BM_Stream)->UseRealTime();

void BM_StreamOfPool(benchmark::State& state) {
  Measure(state, Stream, &World::OfPool);
}
BENCHMARK(BM_StreamOfPool)->UseRealTime();

void BM_OneThread(benchmark::State& state) {
  const auto in = Must(TensorQueue::Create());
  const auto out = Must(TensorQueue::Open(Must(in->Share())));
  Measure(state, [&](World& world, MakeTensor make) {
    const Tensor tensor = (world.*make)();
    for (int i = 0; i < kTurn; ++i) {
      Check(in->Put(tensor, Deadline::Never()));
      Spin(*out);
    }
  });
}
BENCHMARK(BM_OneThread)->UseRealTime();

void AllocateAndRelease(World& world, MakeTensor make) {
  for (int i = 0; i < kTurn; ++i) {
    const Tensor tensor = (world.*make)();
    benchmark::DoNotOptimize(&tensor);
  }
}

void BM_Block(benchmark::State& state) { Measure(state, AllocateAndRelease); }
BENCHMARK(BM_Block)->UseRealTime();

void BM_BlockOfPool(benchmark::State& state) {
  Measure(state, AllocateAndRelease, &World::OfPool);
}
BENCHMARK(BM_BlockOfPool)->UseRealTime();

// ---- Segments ----

// What a DeviceAllocation does, by the bare calls; they succeed, as they have
// just done so for it.
class BareSegment {
 public:
  BareSegment(const DeviceContext& device, size_t bytes)
      : driver_(device.driver()),
        bytes_(bytes),
        access_{.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
                             .id = device.device().ordinal},
                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE} {}

  void Create() {
    const CUmemAllocationProp properties = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = access_.location,
        .win32HandleMetaData = nullptr,
        .allocFlags = {}};
    Call(driver_.cuMemCreate(&handle_, bytes_, &properties, 0));
    Map();
  }
  void Export() {
    int fd = -1;
    Call(driver_.cuMemExportToShareableHandle(
        &fd, handle_, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    fd_ = UniqueFd(fd);
  }
  void DropHandle() { Call(driver_.cuMemRelease(handle_)); }
  int fd() const { return fd_.get(); }

  void Import(UniqueFd fd) {
    Call(driver_.cuMemImportFromShareableHandle(
        &handle_, reinterpret_cast<void*>(static_cast<uintptr_t>(fd.get())),
        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    Map();
    fd_ = std::move(fd);
  }

  void Release() {
    Call(driver_.cuMemUnmap(address_, bytes_));
    Call(driver_.cuMemAddressFree(address_, bytes_));
    fd_.Reset();
  }

 private:
  static void Call(CUresult result) {
    TENON_CHECK(result == CUDA_SUCCESS, "a bare call has failed");
  }
  void Map() {
    Call(driver_.cuMemAddressReserve(&address_, bytes_, 0, 0, 0));
    Call(driver_.cuMemMap(address_, bytes_, 0, handle_, 0));
    Call(driver_.cuMemSetAccess(address_, bytes_, &access_, 1));
  }

  const DriverTable& driver_;
  const size_t bytes_;
  const CUmemAccessDesc access_;
  CUmemGenericAllocationHandle handle_ = 0;
  CUdeviceptr address_ = 0;
  UniqueFd fd_;
};

// A step of ours and of the bare calls, with its number of driver calls.
class Step {
 public:
  Step(World& world, std::string name)
      : world_(world), name_(std::move(name)) {}

  template <typename Ours>
  void Run(const Ours& ours) {
    const uint64_t before = world_.OwnCalls();
    ns_.Add(Nanoseconds(CLOCK_MONOTONIC, ours));
    calls_ = world_.OwnCalls() - before;
  }
  template <typename Bare>
  void RunBare(const Bare& bare) {
    Check(world_.device().Run([&] {
      bare_ns_.Add(Nanoseconds(CLOCK_MONOTONIC, bare));
      return absl::OkStatus();
    }));
  }
  void Report(benchmark::State& state) const {
    state.counters[name_ + "_ns"] = ns_.Median();
    state.counters[name_ + "_ratio"] = ns_.Median() / bare_ns_.Median();
    if (!world_.has_fake()) return;
    state.counters[name_ + "_calls"] = static_cast<double>(calls_);
  }

 private:
  World& world_;
  const std::string name_;
  Samples ns_, bare_ns_;
  uint64_t calls_ = 0;
};

UniqueFd Duplicate(int fd) { return UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

void BM_Segment(benchmark::State& state) {
  World& world = World::OfProcess();
  if (!CanMeasure(state, world)) return;
  const DeviceContext& device = world.device();
  const auto bytes = static_cast<size_t>(state.range(0)) << 20;
  TENON_CHECK(Must(RoundUpToDevice(device, bytes)) == bytes, "granularity");
  Step creates(world, "create"), imports(world, "import");
  Step releases(world, "release");
  Samples export_ns;
  for (auto _ : state) {
    {
      std::optional<DeviceAllocation> made, imported;
      creates.Run(
          [&] { made = Must(DeviceAllocation::Create(device, bytes)); });
      UniqueFd fd = Duplicate(made->fd());
      imports.Run([&] {
        imported = Must(DeviceAllocation::Import(device, std::move(fd), bytes,
                                                 DeviceAccess::kReadWrite));
      });
      releases.Run([&] { Check(imported->Release()); });
    }
    BareSegment made(device, bytes), imported(device, bytes);
    UniqueFd fd;
    creates.RunBare([&] {
      made.Create();
      export_ns.Add(Nanoseconds(CLOCK_MONOTONIC, [&] { made.Export(); }));
      made.DropHandle();
    });
    fd = Duplicate(made.fd());
    imports.RunBare([&] {
      imported.Import(std::move(fd));
      imported.DropHandle();
    });
    releases.RunBare([&] { imported.Release(); });
    Check(device.Run([&] {
      made.Release();
      return absl::OkStatus();
    }));
  }  // namespace
  creates.Report(state);
  imports.Report(state);
  releases.Report(state);
  state.counters["export_ns"] = export_ns.Median();
}  // namespace tenon::cuda_ipc
BENCHMARK(BM_Segment)->ArgName("MiB")->Arg(2)->Arg(64)->UseRealTime();

}  // namespace
}  // namespace tenon::cuda_ipc
