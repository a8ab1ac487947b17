// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of calls of fences, each beside the bare driver calls that it must
// make, in turns in the same run. Runs with the fake driver, whose calls it
// counts: times are of Tenon's own part and of the fake then, not of a GPU.
// With TENON_TEST_DRIVER=machine it runs with the machine's driver, whose calls
// are not counted. Counters, for one call:
//   ns, bare_ns               medians
//   ratio                     of these
//   driver_calls, bare_calls  without cuEventQuery
//   polls                     cuEventQuery by the thread that polls events
// The bare calls are made with the context current; calls of Tenon push and pop
// it each time, which is two driver calls. A row without bare_ns needs no
// driver call. Streams are held back by a host function while calls are
// measured, apart from those of FenceBackend::kHost, which wait for them.
// FromParts() is of a page of timelines that the process has met before.
// Without a driver, a device or the backend nothing is measured, and the label
// says why.

#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "benchmark/benchmark.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/fence.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/must.h"

namespace tenon::cuda_ipc {
namespace {

constexpr int kBatch = 128;  // Calls per sample: a stream's queue has room.

// A driver, its first device and two streams. Never destroyed.
class World {
 public:
  static World& OfProcess() {
    static auto* const world = new World;
    return *world;
  }

  // Why nothing can be measured; else empty.
  const std::string& missing() const { return missing_; }
  bool has_fake() const { return fake_.has_value(); }
  const DeviceContext& device() const { return pool_->device(); }
  CUstream writer() const { return writer_; }
  CUstream reader() const { return reader_; }
  const Tensor& tensor() const { return tensor_; }

  uint64_t Polls() const { return fake_ ? fake_->Calls("cuEventQuery") : 0; }
  uint64_t Calls() const {
    if (!fake_) return 0;
    for (;;) {
      const uint64_t polls = Polls();
      const uint64_t all = fake_->AllCalls();
      if (Polls() == polls) return all - polls;  // None between the two.
    }
  }

  // `call` with the context current.
  template <typename Call>
  void Run(const Call& call) const {
    Check(device().Run([&] { return device().Error(call(), "a bare call"); }));
  }

  // Later work of the writer waits until Open().
  void Close() {
    is_open_ = false;
    Run([&] {
      return device().driver().cuLaunchHostFunc(
          writer_,
          [](void* opened) {
            static_cast<std::atomic<bool>*>(opened)->wait(false);
          },
          &is_open_);
    });
  }
  // Returns once the streams have no work.
  void Open() {
    is_open_ = true;
    is_open_.notify_all();
    for (const CUstream stream : {writer_, reader_}) {
      Run([&] { return device().driver().cuStreamSynchronize(stream); });
    }
  }

 private:
  World() {
    const char* const driver = getenv("TENON_TEST_DRIVER");
    if (driver == nullptr || absl::string_view(driver) != "machine") {
      fake_.emplace();
      fake_->SetEnvironment();
    }
    auto pool = DevicePool::Create(0);
    if (!pool.ok()) {
      missing_ = pool.status().ToString();
      return;
    }
    pool_ = *std::move(pool);
    tensor_ =
        Must(pool_->CreateTensor(kDtypeOf<uint8_t>, {64}, Deadline::Never()));
    for (CUstream* const stream : {&writer_, &reader_}) {
      Run([&] {
        return device().driver().cuStreamCreate(stream, kCuStreamNonBlocking);
      });
    }
  }

  std::optional<FakeDriver> fake_;
  std::string missing_;
  std::shared_ptr<DevicePool> pool_;
  Tensor tensor_;
  CUstream writer_ = nullptr;
  CUstream reader_ = nullptr;
  std::atomic<bool> is_open_ = true;
};

// A word that streams write and wait for, by the bare calls.
class BareWord {
 public:
  explicit BareWord(World& world) : world_(world) {
    world_.Run([&] {
      const DriverTable& driver = world_.device().driver();
      const CUresult result = driver.cuMemHostRegister_v2(
          memory_, sizeof(memory_),
          kCuMemHostRegisterPortable | kCuMemHostRegisterDeviceMap);
      if (result != CUDA_SUCCESS) return result;
      return driver.cuMemHostGetDevicePointer_v2(&address_, memory_, 0);
    });
  }
  ~BareWord() {
    world_.Run(
        [&] { return world_.device().driver().cuMemHostUnregister(memory_); });
  }
  BareWord(const BareWord&) = delete;
  BareWord& operator=(const BareWord&) = delete;

  CUresult Write() {
    return world_.device().driver().cuStreamWriteValue32_v2(
        world_.writer(), address_, ++value_, kCuStreamWriteValueDefault);
  }
  // For the last value.
  CUresult Wait() const {
    return world_.device().driver().cuStreamWaitValue32_v2(
        world_.reader(), address_, value_, kCuStreamWaitValueGeq);
  }

 private:
  static constexpr size_t kPageBytes = 4096;

  World& world_;
  alignas(kPageBytes) std::byte memory_[kPageBytes] = {};
  CUdeviceptr address_ = 0;
  uint32_t value_ = 0;
};

// As many events as one batch records.
class BareEvents {
 public:
  explicit BareEvents(World& world) : world_(world), events_(kBatch) {
    for (CUevent& event : events_) {
      world_.Run([&] {
        return world_.device().driver().cuEventCreate(&event,
                                                      kCuEventDisableTiming);
      });
    }
  }
  ~BareEvents() {
    for (const CUevent event : events_) {
      world_.Run(
          [&] { return world_.device().driver().cuEventDestroy_v2(event); });
    }
  }
  BareEvents(const BareEvents&) = delete;
  BareEvents& operator=(const BareEvents&) = delete;

  CUresult Record(int i) const {
    return world_.device().driver().cuEventRecord(events_[i], world_.writer());
  }

 private:
  World& world_;
  std::vector<CUevent> events_;
};

// The samples of one kind of call.
class Calls {
 public:
  explicit Calls(World& world) : world_(world) {}

  // work(i), kBatch times.
  template <typename Work>
  void Run(const Work& work) {
    const uint64_t calls = world_.Calls();
    const uint64_t polls = world_.Polls();
    ns_.Add(Nanoseconds(CLOCK_MONOTONIC,
                        [&] {
                          for (int i = 0; i < kBatch; ++i) work(i);
                        }) /
            kBatch);
    calls_ += world_.Calls() - calls;
    polls_ += world_.Polls() - polls;
    count_ += kBatch;
  }

  double ns() const { return ns_.Median(); }
  double calls() const { return Mean(calls_); }
  double polls() const { return Mean(polls_); }

 private:
  double Mean(uint64_t sum) const {
    return static_cast<double>(sum) / static_cast<double>(count_);
  }

  World& world_;
  Samples ns_;
  uint64_t calls_ = 0;
  uint64_t polls_ = 0;
  uint64_t count_ = 0;
};

// What a row measures, for a timeline of the writer.
struct Row {
  // Before each batch of either kind, with the stream closed if `is_closed`.
  std::function<void()> prepare, prepare_bare;
  std::function<void(int)> ours;
  std::function<CUresult(int)> bare;  // May be empty.
  bool is_closed = true;
};

void Report(benchmark::State& state, const World& world, const Calls& ours,
            const Calls* bare) {
  state.counters["ns"] = ours.ns();
  if (bare != nullptr) {
    state.counters["bare_ns"] = bare->ns();
    state.counters["ratio"] = ours.ns() / bare->ns();
  }
  if (!world.has_fake()) return;
  state.counters["driver_calls"] = ours.calls();
  state.counters["bare_calls"] = bare == nullptr ? 0 : bare->calls();
  state.counters["polls"] = ours.polls();
}

void Measure(benchmark::State& state, World& world, StreamTimeline& timeline,
             const Row& row) {
  Calls ours(world), bare(world), warm(world);
  const auto run_ours = [&](Calls& calls) {
    if (row.is_closed) world.Close();
    if (row.prepare) row.prepare();
    calls.Run(row.ours);
    world.Open();
    // The thread that polls events has seen all of them then.
    Check(Must(timeline.Record()).Wait(Deadline::Never()));
  };
  const auto run_bare = [&] {
    if (row.is_closed) world.Close();
    world.Run([&] {
      if (row.prepare_bare) row.prepare_bare();
      CUresult result = CUDA_SUCCESS;
      bare.Run([&](int i) {
        const CUresult of_call = row.bare(i);
        if (of_call != CUDA_SUCCESS) result = of_call;
      });
      return result;
    });
    world.Open();
  };
  run_ours(warm);
  for (auto _ : state) {
    run_ours(ours);
    if (row.bare) run_bare();
  }
  Report(state, world, ours, row.bare ? &bare : nullptr);
}

void Skip(benchmark::State& state, absl::string_view missing) {
  state.SetLabel(absl::StrCat("not measured: ", missing));
  for (auto _ : state) {
  }
}

// A timeline of the writer; null, with a label, if nothing can be measured.
std::unique_ptr<StreamTimeline> MakeTimeline(benchmark::State& state,
                                             World& world,
                                             FenceBackend backend) {
  if (!world.missing().empty()) {
    Skip(state, world.missing());
    return nullptr;
  }
  auto made = StreamTimeline::Create(world.device(), world.writer(),
                                     {.backend = backend});
  if (made.ok()) return *std::move(made);
  Skip(state, made.status().ToString());
  return nullptr;
}

// The call `ours` of `timeline`, beside the bare call of its backend.
void MeasureRecord(benchmark::State& state, World& world,
                   StreamTimeline& timeline,
                   const std::function<void(int)>& ours) {
  Row row{.prepare = nullptr,
          .prepare_bare = nullptr,
          .ours = ours,
          .bare = nullptr};
  std::optional<BareWord> word;
  std::optional<BareEvents> events;
  switch (timeline.backend()) {
    case FenceBackend::kWords:
      word.emplace(world);
      row.bare = [&](int) { return word->Write(); };
      break;
    case FenceBackend::kEvents:
      events.emplace(world);
      row.bare = [&](int i) { return events->Record(i); };
      break;
    case FenceBackend::kHost:
      row.is_closed = false;
      row.bare = [&](int) {
        return world.device().driver().cuStreamSynchronize(world.writer());
      };
      break;
  }
  Measure(state, world, timeline, row);
}

void BM_Record(benchmark::State& state, FenceBackend backend) {
  World& world = World::OfProcess();
  const auto timeline = MakeTimeline(state, world, backend);
  if (timeline == nullptr) return;
  MeasureRecord(state, world, *timeline, [&](int) {
    benchmark::DoNotOptimize(Must(timeline->Record()));
  });
}

void BM_RecordUse(benchmark::State& state, FenceBackend backend) {
  World& world = World::OfProcess();
  const auto timeline = MakeTimeline(state, world, backend);
  if (timeline == nullptr) return;
  MeasureRecord(state, world, *timeline,
                [&](int) { Check(timeline->RecordUse(world.tensor())); });
}

void BM_WaitOnUnreached(benchmark::State& state, FenceBackend backend) {
  World& world = World::OfProcess();
  // Whatever records, streams wait for words; else WaitOn() blocks.
  if (MakeTimeline(state, world, FenceBackend::kWords) == nullptr) return;
  const auto timeline = MakeTimeline(state, world, backend);
  if (timeline == nullptr) return;
  BareWord word(world);
  Fence fence;
  Measure(
      state, world, *timeline,
      {.prepare = [&] { fence = Must(timeline->Record()); },
       .prepare_bare =
           [&] { TENON_CHECK(word.Write() == CUDA_SUCCESS, "a bare call"); },
       .ours =
           [&](int) { Check(fence.WaitOn(world.device(), world.reader())); },
       .bare = [&](int) { return word.Wait(); }});
}

// `ours` of a fence that is reached. It needs no driver call.
void MeasureReached(benchmark::State& state, FenceBackend backend,
                    const std::function<void(World&, const Fence&)>& ours) {
  World& world = World::OfProcess();
  const auto timeline = MakeTimeline(state, world, backend);
  if (timeline == nullptr) return;
  const Fence fence = Must(timeline->Record());
  Check(fence.Wait(Deadline::Never()));
  Measure(state, world, *timeline,
          {.prepare = nullptr,
           .prepare_bare = nullptr,
           .ours = [&](int) { ours(world, fence); },
           .bare = nullptr,
           .is_closed = false});
}

void BM_WaitOnReached(benchmark::State& state, FenceBackend backend) {
  MeasureReached(state, backend, [](World& world, const Fence& fence) {
    Check(fence.WaitOn(world.device(), world.reader()));
  });
}

void BM_IsReached(benchmark::State& state, FenceBackend backend) {
  MeasureReached(state, backend, [](World&, const Fence& fence) {
    TENON_CHECK(fence.IsReached(), "a fence that was reached");
  });
}

void BM_FromParts(benchmark::State& state, FenceBackend backend) {
  MeasureReached(state, backend, [](World&, const Fence& fence) {
    benchmark::DoNotOptimize(
        Must(Fence::FromParts(fence.timeline(), fence.value())));
  });
}

BENCHMARK_CAPTURE(BM_Record, words, FenceBackend::kWords)->UseRealTime();
BENCHMARK_CAPTURE(BM_Record, events, FenceBackend::kEvents)->UseRealTime();
BENCHMARK_CAPTURE(BM_Record, host, FenceBackend::kHost)->UseRealTime();
BENCHMARK_CAPTURE(BM_RecordUse, words, FenceBackend::kWords)->UseRealTime();
BENCHMARK_CAPTURE(BM_RecordUse, events, FenceBackend::kEvents)->UseRealTime();
BENCHMARK_CAPTURE(BM_RecordUse, host, FenceBackend::kHost)->UseRealTime();
BENCHMARK_CAPTURE(BM_WaitOnUnreached, words, FenceBackend::kWords)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_WaitOnUnreached, events, FenceBackend::kEvents)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_WaitOnReached, words, FenceBackend::kWords)->UseRealTime();
BENCHMARK_CAPTURE(BM_WaitOnReached, events, FenceBackend::kEvents)
    ->UseRealTime();
BENCHMARK_CAPTURE(BM_WaitOnReached, host, FenceBackend::kHost)->UseRealTime();
BENCHMARK_CAPTURE(BM_IsReached, words, FenceBackend::kWords)->UseRealTime();
BENCHMARK_CAPTURE(BM_IsReached, events, FenceBackend::kEvents)->UseRealTime();
BENCHMARK_CAPTURE(BM_IsReached, host, FenceBackend::kHost)->UseRealTime();
BENCHMARK_CAPTURE(BM_FromParts, words, FenceBackend::kWords)->UseRealTime();
BENCHMARK_CAPTURE(BM_FromParts, events, FenceBackend::kEvents)->UseRealTime();
BENCHMARK_CAPTURE(BM_FromParts, host, FenceBackend::kHost)->UseRealTime();

}  // namespace
}  // namespace tenon::cuda_ipc
