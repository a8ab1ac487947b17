// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A loader beside its floor, by turns in the same run. The floor is written by
// hand: processes that copy samples into one mapped memory by memcpy(), a
// counter for each batch and no more; it spins, or it sleeps on a futex.
//
//   BM_Batch       epochs of batches of one size: time of a batch. vs_spin is
//                  the ratio of a loader that may spin to the floor that spins,
//                  vs_sleep that of one that sleeps to the floor asleep; vs_copy
//                  without workers that to memcpy() in this process
//   BM_BatchSize   the same of samples of 3x32x32 floats, by samples of a batch
//   BM_Start       Create() and the first batch of tiny samples, by the way in
//                  which workers start (1: threads; 2, 3, 4: processes by spawn,
//                  fork, fork server), and stop_ms the destructor after an epoch,
//                  beside bare starts (of threads, programs or forked processes)
//                  and their ends
//   BM_FirstBatch  Create() and the first batch, of samples that take 1 ms each;
//                  over_ms is that without one sample and without starting as
//                  many bare processes of this program
//   BM_SlowSamples batches of 16 samples that wait for 1 ms each, as reads from a
//                  store do, of a dataset with 32 MiB in memory: first_ms and
//                  second_ms from Epoch() to these batches, batch_ms of one in
//                  the mean of an epoch, worker_mb the memory of the workers
//   BM_Counters    the calls of the meter in a batch that the consumer makes
//                  itself: of one that is measured, and of one that is not
//   BM_Stop        the destructor, workers idle; vs_bare is the ratio to SIGTERM
//                  to and wait for as many sleeping processes
//
// Ratios are of medians of wall time. It has a main() of its own, since a
// worker must reach Init() first.

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/epoch_range.h"
#include "tenon/loader/loader.h"
#include "tenon/loader/stats/loader_stats.h"
#include "tenon/loader/stats/stage_meter.h"
#include "tenon/loader/stats/stats_layout.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/settings/start_method.h"

namespace tenon::loader {
namespace {

constexpr char kStart[] = "--bare-start";
constexpr char kPause[] = "--bare-pause";
constexpr int64_t kPrefetch = 2;
constexpr int kMostWorkers = 4;

// A benchmark that measures failures must not succeed.
void DieUnless(bool good, const std::string& why) {
  if (good) return;
  std::fprintf(stderr, "loader_benchmark: %s\n", why.c_str());
  std::exit(1);
}

// The same, with a text only if it is needed.
template <typename T>
void DieUnlessOk(const absl::StatusOr<T>& value) {
  if (!value.ok()) DieUnless(false, value.status().ToString());
}

// Each item is a copy of the same values, which stay in the cache.
class Flat : public Dataset {
 public:
  Flat(int64_t floats, int64_t size)
      : values_(static_cast<size_t>(floats), 1.0f), size_(size) {}
  int64_t size() const override { return size_; }
  SampleSpec spec() const override {
    return SampleSpec().Add<float>("values", {std::ssize(values_)});
  }
  absl::Status Get(int64_t, SampleRandom&, Sample& sample) override {
    const absl::StatusOr<absl::Span<float>> to = sample.data<float>(0);
    if (!to.ok()) return to.status();
    std::memcpy(to->data(), values_.data(), to->size() * sizeof(float));
    return absl::OkStatus();
  }

 private:
  std::vector<float> values_;
  int64_t size_;
};
TENON_LOADER_DATASET(Flat(int64_t, int64_t));

// Each item takes a millisecond of the processor.
class Slow : public Flat {
 public:
  using Flat::Flat;
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    const Deadline end = Deadline::After(absl::Milliseconds(1));
    while (!end.has_passed()) StdAtomics::Pause();
    return Flat::Get(index, random, sample);
  }
};
TENON_LOADER_DATASET(Slow(int64_t, int64_t));

// Each item takes a millisecond of waiting. Each instance has an index.
class Stored : public Flat {
 public:
  Stored(int64_t floats, int64_t size) : Flat(floats, size), index_(kInts, 1) {}
  absl::Status Get(int64_t index, SampleRandom& random,
                   Sample& sample) override {
    absl::SleepFor(absl::Milliseconds(1));
    benchmark::DoNotOptimize(index_[static_cast<size_t>(index) % kInts]);
    return Flat::Get(index, random, sample);
  }
  bool thread_safe() const override { return true; }

 private:
  static constexpr size_t kInts = size_t{4} << 20;

  std::vector<int64_t> index_;
};
TENON_LOADER_DATASET(Stored(int64_t, int64_t));

// The batches of a round.
struct Shape {
  int64_t floats = 1;  // Of a sample.
  int64_t batch_size = 64;
  int64_t batches = 1;

  size_t sample_bytes() const {
    return static_cast<size_t>(floats) * sizeof(float);
  }
  size_t batch_bytes() const {
    return sample_bytes() * static_cast<size_t>(batch_size);
  }
};

// --- The floor. ---

using Word = std::atomic<uint32_t>;

bool Reached(const Word& word, uint32_t least) {
  return static_cast<int32_t>(word.load(std::memory_order_acquire) - least) >=
         0;
}

void FutexWait(Word& word, uint32_t value) {
  syscall(SYS_futex, &word, FUTEX_WAIT, value, nullptr, nullptr, 0);
}

// Waits until `word` has reached `least`.
void AwaitSpinning(const Word& word, uint32_t least) {
  for (uint32_t turn = 1; !Reached(word, least); ++turn) {
    StdAtomics::Pause();
    if (turn % 4096 == 0) sched_yield();  // There may be too few cores.
  }
}
void AwaitAsleep(Word& word, uint32_t least, Word& sleeps) {
  while (!Reached(word, least)) {
    sleeps.store(1);
    const uint32_t seen = word.load();
    if (static_cast<int32_t>(seen - least) < 0) FutexWait(word, seen);
    sleeps.store(0, std::memory_order_relaxed);
  }
}
void Post(Word& word, uint32_t value) {
  word.store(value, std::memory_order_release);
}
void PostAndWake(Word& word, uint32_t value, const Word& sleeps) {
  word.store(value);
  if (sleeps.load() != 0) {
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
}

class SharedMemory {
 public:
  explicit SharedMemory(size_t size)
      : size_(size),
        data_(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    DieUnless(data_ != MAP_FAILED, "mmap");
  }
  ~SharedMemory() { munmap(data_, size_); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  size_t size_;
  void* data_;
};

class Floor {
 public:
  Floor(const Shape& shape, int workers)
      : shape_(shape),
        source_(static_cast<size_t>(shape.floats), 1.0f),
        memory_(shape.batch_bytes() * static_cast<size_t>(kPrefetch) *
                static_cast<size_t>(workers)) {
    for (int worker = 0; worker < workers; ++worker) {
      auto child =
          ForkedChild::Fork({.name = "floor",
                             .watchdog = absl::Minutes(20),
                             .may_have_threads = true},
                            [&](const Reporter&) { Work(worker, workers); });
      DieUnless(child.ok(), child.status().ToString());
      children_.push_back(*std::move(child));
    }
  }

  // One round: the consumer reads the first element of each batch.
  void Run(bool asleep) {
    control_->asleep.store(asleep ? 1 : 0);
    control_->round.fetch_add(1);
    syscall(SYS_futex, &control_->round, FUTEX_WAKE, INT32_MAX, nullptr,
            nullptr, 0);
    const auto workers = static_cast<int64_t>(children_.size());
    for (int64_t n = 0; n < shape_.batches; ++n) {
      const auto worker = static_cast<size_t>(n % workers);
      Lane& lane = control_->lanes[worker];
      const uint32_t next = lane.taken.load(std::memory_order_relaxed) + 1;
      asleep ? AwaitAsleep(lane.made, next, lane.consumer_sleeps)
             : AwaitSpinning(lane.made, next);
      benchmark::DoNotOptimize(*SlotOf(worker, next - 1));
      asleep ? PostAndWake(lane.taken, next, lane.worker_sleeps)
             : Post(lane.taken, next);
    }
  }

 private:
  struct Lane {
    alignas(64) Word made{0};
    Word worker_sleeps{0};
    alignas(64) Word taken{0};
    Word consumer_sleeps{0};
  };
  struct Control {
    alignas(64) Word round{0};
    Word asleep{0};
    Lane lanes[kMostWorkers];
  };

  std::byte* SlotOf(size_t worker, uint32_t made) {
    const size_t slot = worker * static_cast<size_t>(kPrefetch) +
                        made % static_cast<uint32_t>(kPrefetch);
    return memory_.data() + slot * shape_.batch_bytes();
  }

  void Work(int worker, int workers) {
    Lane& lane = control_->lanes[worker];
    uint32_t made = 0;
    for (uint32_t round = 0;; ++round) {
      while (control_->round.load() == round) {
        FutexWait(control_->round, round);
      }
      const bool asleep = control_->asleep.load() != 0;
      for (int64_t n = worker; n < shape_.batches; n += workers) {
        const uint32_t room = made + 1 - static_cast<uint32_t>(kPrefetch);
        asleep ? AwaitAsleep(lane.taken, room, lane.worker_sleeps)
               : AwaitSpinning(lane.taken, room);
        std::byte* const to = SlotOf(static_cast<size_t>(worker), made);
        for (int64_t i = 0; i < shape_.batch_size; ++i) {
          std::memcpy(to + static_cast<size_t>(i) * shape_.sample_bytes(),
                      source_.data(), shape_.sample_bytes());
        }
        ++made;
        asleep ? PostAndWake(lane.made, made, lane.consumer_sleeps)
               : Post(lane.made, made);
      }
    }
  }

  Shape shape_;
  std::vector<float> source_;
  SharedMemory memory_;
  SharedObject<Control> control_;
  std::vector<ForkedChild> children_;
};

// Without workers.
class CopyFloor {
 public:
  explicit CopyFloor(const Shape& shape)
      : shape_(shape),
        source_(static_cast<size_t>(shape.floats), 1.0f),
        memory_(shape.batch_bytes()) {}

  void Run() {
    for (int64_t n = 0; n < shape_.batches; ++n) {
      for (int64_t i = 0; i < shape_.batch_size; ++i) {
        std::memcpy(
            memory_.data() + static_cast<size_t>(i) * shape_.sample_bytes(),
            source_.data(), shape_.sample_bytes());
      }
      benchmark::DoNotOptimize(*memory_.data());
      benchmark::ClobberMemory();
    }
  }

 private:
  Shape shape_;
  std::vector<float> source_;
  SharedMemory memory_;
};

// --- The loader. ---

template <typename D>
std::unique_ptr<Loader> MakeLoaderOf(
    const Shape& shape, int workers, WorkerKind kind,
    std::optional<spawn::StartMethod> start_method = std::nullopt) {
  LoaderOptions options = {.batch_size = shape.batch_size,
                           .workers = workers,
                           .worker_kind = kind,
                           .start_method = start_method};
  if (workers > 0) options.prefetch = static_cast<int>(kPrefetch);
  auto loader = Loader::Create<D>(options, shape.floats,
                                  shape.batch_size * shape.batches);
  DieUnlessOk(loader);
  return *std::move(loader);
}
std::unique_ptr<Loader> MakeLoader(const Shape& shape, int workers,
                                   WorkerKind kind) {
  return MakeLoaderOf<Flat>(shape, workers, kind);
}

void RunEpoch(Loader& loader, int64_t epoch) {
  for (const absl::StatusOr<Batch>& batch : loader.Epoch(epoch)) {
    DieUnlessOk(batch);
    const auto values = batch->data<float>(0);
    DieUnlessOk(values);
    benchmark::DoNotOptimize(values->front());
  }
}

void TakeFirst(Loader& loader) {
  EpochRange epoch = loader.Epoch(0);
  const auto batch = epoch.Next();
  DieUnlessOk(batch);
  DieUnless(batch->has_value(), "an epoch without batches");
}

// Runs all threads of a process on these cores.
void RunOn(pid_t pid, const cpu_set_t& cores) {
  const std::string tasks = absl::StrCat("/proc/", pid, "/task");
  DIR* const directory = opendir(tasks.c_str());
  DieUnless(directory != nullptr, tasks);
  while (const dirent* entry = readdir(directory)) {
    int tid = 0;
    if (!absl::SimpleAtoi(entry->d_name, &tid)) continue;
    DieUnless(sched_setaffinity(tid, sizeof(cores), &cores) == 0, tasks);
  }
  closedir(directory);
}

// A loader that never spins, nor do its workers: they are started on one core,
// where spinning is of no use, and then run on all.
std::unique_ptr<Loader> MakeSleepingLoader(const Shape& shape, int workers,
                                           WorkerKind kind) {
  cpu_set_t all;
  DieUnless(sched_getaffinity(0, sizeof(all), &all) == 0, "sched_getaffinity");
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core) {
    if (CPU_ISSET(core, &all)) CPU_SET(core, &one);
  }
  RunOn(getpid(), one);
  auto loader = MakeLoader(shape, workers, kind);
  RunEpoch(*loader, 0);
  RunOn(getpid(), all);
  for (const pid_t pid : loader->worker_pids()) RunOn(pid, all);
  return loader;
}

// --- A batch. ---

// The round is some milliseconds long.
Shape ShapeOf(int64_t floats) {
  if (floats <= 1) return {.floats = floats, .batch_size = 64, .batches = 4096};
  if (floats <= 3 * 32 * 32) {
    return {.floats = floats, .batch_size = 64, .batches = 128};
  }
  return {.floats = floats, .batch_size = 32, .batches = 8};
}

template <typename Round>
double MicrosecondsOfABatch(const Shape& shape, Round&& round) {
  return Nanoseconds(CLOCK_MONOTONIC, round) /
         static_cast<double>(shape.batches) / 1e3;
}

void MeasureLocal(benchmark::State& state, const Shape& shape) {
  const auto loader = MakeLoader(shape, 0, WorkerKind::kProcess);
  CopyFloor floor(shape);
  Samples ours, copy;
  int64_t epoch = 0;
  for (auto _ : state) {
    const double us =
        MicrosecondsOfABatch(shape, [&] { RunEpoch(*loader, epoch++); });
    ours.Add(us);
    copy.Add(MicrosecondsOfABatch(shape, [&] { floor.Run(); }));
    state.SetIterationTime(us * 1e-6 * static_cast<double>(shape.batches));
  }
  state.counters["us"] = ours.Median();
  state.counters["copy_us"] = copy.Median();
  state.counters["vs_copy"] = ours.Median() / copy.Median();
}

void MeasureWorkers(benchmark::State& state, const Shape& shape, int workers,
                    WorkerKind kind) {
  Floor floor(shape, workers);  // Forks: before there are threads.
  const auto loader = MakeLoader(shape, workers, kind);
  const auto sleeping_loader = MakeSleepingLoader(shape, workers, kind);
  RunEpoch(*loader, 0);         // The workers have their datasets and memory,
  floor.Run(/*asleep=*/false);  // and so has the floor.
  Samples ours, ours_asleep, spinning, sleeping;
  int64_t epoch = 0;
  for (auto _ : state) {
    const double us =
        MicrosecondsOfABatch(shape, [&] { RunEpoch(*loader, ++epoch); });
    ours.Add(us);
    ours_asleep.Add(MicrosecondsOfABatch(
        shape, [&] { RunEpoch(*sleeping_loader, epoch); }));
    spinning.Add(MicrosecondsOfABatch(shape, [&] { floor.Run(false); }));
    sleeping.Add(MicrosecondsOfABatch(shape, [&] { floor.Run(true); }));
    state.SetIterationTime(us * 1e-6 * static_cast<double>(shape.batches));
  }
  state.counters["us"] = ours.Median();
  state.counters["asleep_us"] = ours_asleep.Median();
  state.counters["spin_us"] = spinning.Median();
  state.counters["sleep_us"] = sleeping.Median();
  state.counters["vs_spin"] = ours.Median() / spinning.Median();
  state.counters["vs_sleep"] = ours_asleep.Median() / sleeping.Median();
}

void BM_Batch(benchmark::State& state) {
  const Shape shape = ShapeOf(state.range(0));
  const int workers = static_cast<int>(state.range(1));
  const WorkerKind kind =
      state.range(2) != 0 ? WorkerKind::kThread : WorkerKind::kProcess;
  workers == 0 ? MeasureLocal(state, shape)
               : MeasureWorkers(state, shape, workers, kind);
}
// An iteration is an epoch of each loader and a round of each floor; its time
// is the first epoch's.
BENCHMARK(BM_Batch)
    ->ArgNames({"floats", "workers", "threads"})
    ->ArgsProduct({{1, 3 * 32 * 32, 3 * 224 * 224}, {0}, {0}})
    ->ArgsProduct({{1, 3 * 32 * 32, 3 * 224 * 224}, {1, 2}, {0, 1}})
    ->UseManualTime();

void BM_BatchSize(benchmark::State& state) {
  constexpr int64_t kSamples = 2048;  // Of a round, if that is 4 batches.
  const int64_t batch = state.range(0);
  const Shape shape = {.floats = 3 * 32 * 32,
                       .batch_size = batch,
                       .batches = std::max<int64_t>(4, kSamples / batch)};
  const int workers = static_cast<int>(state.range(1));
  const WorkerKind kind =
      state.range(2) != 0 ? WorkerKind::kThread : WorkerKind::kProcess;
  workers == 0 ? MeasureLocal(state, shape)
               : MeasureWorkers(state, shape, workers, kind);
}
BENCHMARK(BM_BatchSize)
    ->ArgNames({"batch", "workers", "threads"})
    ->ArgsProduct({{1, 8, 64, 512}, {0}, {0}})
    ->ArgsProduct({{1, 8, 64, 512}, {1, 2, 4}, {0}})
    ->ArgsProduct({{1, 8, 64, 512}, {2}, {1}})
    ->UseManualTime();

// --- Start and stop. ---

// Processes of this program that have reached main(), and sleep or exit there.
class BareProcesses {
 public:
  BareProcesses(int count, const char* mode) {
    int ends[2];
    DieUnless(pipe2(ends, O_CLOEXEC) == 0, "pipe2");
    const UniqueFd out(ends[0]);
    const UniqueFd in(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
    char* const argv[] = {const_cast<char*>("loader_benchmark"),
                          const_cast<char*>(mode), nullptr};
    for (int i = 0; i < count; ++i) {
      pid_t pid = -1;
      DieUnless(posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv,
                            environ) == 0,
                "posix_spawn");
      pids_.push_back(pid);
    }
    posix_spawn_file_actions_destroy(&actions);
    for (int i = 0; i < count; ++i) {
      char byte = 0;
      DieUnless(read(out.get(), &byte, 1) == 1, "read");
    }
  }

  void TerminateAndWait() {
    for (const pid_t pid : pids_) kill(pid, SIGTERM);
    Wait();
  }
  void Wait() {
    for (const pid_t pid : pids_) {
      DieUnless(waitpid(pid, nullptr, 0) == pid, "waitpid");
    }
  }

 private:
  std::vector<pid_t> pids_;
};

void SetCounters(benchmark::State& state, const Samples& ours,
                 const Samples& bare) {
  state.counters["ms"] = ours.Median() / 1e6;
  state.counters["bare_ms"] = bare.Median() / 1e6;
}

void BM_FirstBatch(benchmark::State& state) {
  const Shape shape = ShapeOf(3 * 32 * 32);
  const int workers = static_cast<int>(state.range(0));
  Samples ours, bare_starts;
  for (auto _ : state) {
    std::unique_ptr<Loader> loader;
    const double ns = Nanoseconds(CLOCK_MONOTONIC, [&] {
      loader = MakeLoaderOf<Slow>(shape, workers, WorkerKind::kProcess);
      TakeFirst(*loader);
    });
    ours.Add(ns);
    loader.reset();
    std::optional<BareProcesses> bare;
    bare_starts.Add(
        Nanoseconds(CLOCK_MONOTONIC, [&] { bare.emplace(workers, kStart); }));
    bare->Wait();
    state.SetIterationTime(ns * 1e-9);
  }
  SetCounters(state, ours, bare_starts);
  state.counters["over_ms"] = (ours.Median() - bare_starts.Median()) / 1e6 - 1;
}
BENCHMARK(BM_FirstBatch)->ArgName("workers")->Arg(1)->Arg(2)->UseManualTime();

// As many threads as workers, which have begun, and wait for their end.
class BareThreads {
 public:
  explicit BareThreads(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        begun_.fetch_add(1);
        end_.wait(false);
      });
    }
    while (begun_.load() < count) std::this_thread::yield();
  }
  void End() {
    end_.store(true);
    end_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> end_{false};
  std::atomic<int> begun_{0};
  std::vector<std::thread> threads_;
};

// Forked children of this process, which sleep.
class BareForks {
 public:
  explicit BareForks(int count) {
    for (int i = 0; i < count; ++i) {
      auto child = ForkedChild::Fork({.name = "bare",
                                      .watchdog = absl::Minutes(1),
                                      .may_have_threads = true},
                                     [&](const Reporter&) {
                                       begun_->fetch_add(1);
                                       pause();
                                     });
      DieUnlessOk(child);
      children_.push_back(*std::move(child));
    }
    while (begun_->load() < count) StdAtomics::Pause();
  }
  void End() {
    for (ForkedChild& child : children_) child.Kill();
  }

 private:
  SharedObject<std::atomic<int>> begun_;
  std::vector<ForkedChild> children_;
};

enum StartWay : int64_t { kThreads = 1, kSpawned, kForked, kForkServed };

// The bare starts and ends of one way, in nanoseconds.
template <typename Bare, typename... Arguments>
void AddBare(Samples& starts, Samples& ends, Arguments... arguments) {
  std::optional<Bare> bare;
  starts.Add(Nanoseconds(CLOCK_MONOTONIC, [&] { bare.emplace(arguments...); }));
  ends.Add(Nanoseconds(CLOCK_MONOTONIC, [&] {
    if constexpr (requires { bare->End(); }) {
      bare->End();
    } else {
      bare->TerminateAndWait();
    }
  }));
}

std::unique_ptr<Loader> MakeLoaderBy(StartWay way, const Shape& shape,
                                     int workers) {
  switch (way) {
    case kThreads:
      return MakeLoader(shape, workers, WorkerKind::kThread);
    case kSpawned:
      return MakeLoaderOf<Flat>(shape, workers, WorkerKind::kProcess,
                                spawn::StartMethod::kSpawn);
    case kForked:
      return MakeLoaderOf<Flat>(shape, workers, WorkerKind::kProcess,
                                spawn::StartMethod::kFork);
    case kForkServed:
      break;
  }
  return MakeLoaderOf<Flat>(shape, workers, WorkerKind::kProcess,
                            spawn::StartMethod::kForkServer);
}

void BM_Start(benchmark::State& state) {
  const Shape shape = {.floats = 1, .batch_size = 64, .batches = 8};
  const int workers = static_cast<int>(state.range(0));
  const auto way = static_cast<StartWay>(state.range(1));
  // The fork server is started by the first loader, and stays.
  MakeLoaderBy(way, shape, workers).reset();
  Samples starts, stops, bare_starts, bare_stops;
  for (auto _ : state) {
    std::unique_ptr<Loader> loader;
    const double start = Nanoseconds(CLOCK_MONOTONIC, [&] {
      loader = MakeLoaderBy(way, shape, workers);
      TakeFirst(*loader);
    });
    const double stop = Nanoseconds(CLOCK_MONOTONIC, [&] { loader.reset(); });
    starts.Add(start);
    stops.Add(stop);
    if (way == kThreads) {
      AddBare<BareThreads>(bare_starts, bare_stops, workers);
    } else if (way == kSpawned) {
      AddBare<BareProcesses>(bare_starts, bare_stops, workers, kPause);
    } else {
      AddBare<BareForks>(bare_starts, bare_stops, workers);
    }
    state.SetIterationTime((start + stop) * 1e-9);
  }
  SetCounters(state, starts, bare_starts);
  state.counters["stop_ms"] = stops.Median() / 1e6;
  state.counters["bare_stop_ms"] = bare_stops.Median() / 1e6;
}
BENCHMARK(BM_Start)
    ->ArgNames({"workers", "way"})
    ->ArgsProduct({{1, 2, 4}, {kThreads, kSpawned, kForked, kForkServed}})
    ->Iterations(11)
    ->UseManualTime();

// The memory of processes; of what several of them map, their part.
double MegabytesOf(const std::vector<pid_t>& pids) {
  double kilobytes = 0;
  for (const pid_t pid : pids) {
    std::ifstream file(absl::StrCat("/proc/", pid, "/smaps_rollup"));
    std::string word;
    while (file >> word && word != "Pss:") {
    }
    double pss = 0;
    DieUnless(static_cast<bool>(file >> pss), "smaps_rollup");
    kilobytes += pss;
  }
  return kilobytes / 1024;
}

void BM_SlowSamples(benchmark::State& state) {
  const Shape shape = {.floats = 3 * 32 * 32, .batch_size = 16, .batches = 32};
  auto loader = Loader::Create<Stored>(
      {.batch_size = shape.batch_size,
       .workers = static_cast<int>(state.range(0)),
       .threads_per_worker = static_cast<int>(state.range(1)),
       .prefetch = static_cast<int>(kPrefetch)},
      shape.floats, shape.batch_size * shape.batches);
  DieUnlessOk(loader);
  RunEpoch(**loader, 0);
  Samples first, second, all;
  int64_t epoch = 0;
  for (auto _ : state) {
    EpochRange range = (*loader)->Epoch(++epoch);
    const auto next = [&] { DieUnlessOk(range.Next()); };
    const double one = Nanoseconds(CLOCK_MONOTONIC, next);
    const double two = one + Nanoseconds(CLOCK_MONOTONIC, next);
    const double ns = two + Nanoseconds(CLOCK_MONOTONIC, [&] {
                        for (int64_t i = 2; i < shape.batches; ++i) next();
                      });
    first.Add(one);
    second.Add(two);
    all.Add(ns / static_cast<double>(shape.batches));
    state.SetIterationTime(ns * 1e-9);
  }
  state.counters["first_ms"] = first.Median() / 1e6;
  state.counters["second_ms"] = second.Median() / 1e6;
  state.counters["batch_ms"] = all.Median() / 1e6;
  state.counters["worker_mb"] = MegabytesOf((*loader)->worker_pids());
}
BENCHMARK(BM_SlowSamples)
    ->ArgNames({"workers", "threads"})
    ->Args({1, 1})
    ->Args({4, 1})
    ->Args({1, 4})
    ->Args({8, 1})
    ->Args({2, 4})
    ->Args({1, 8})
    ->UseManualTime();

void BM_Stop(benchmark::State& state) {
  const Shape shape = ShapeOf(1);
  const int workers = static_cast<int>(state.range(0));
  Samples ours, bare_stops;
  for (auto _ : state) {
    auto loader = MakeLoader(shape, workers, WorkerKind::kProcess);
    RunEpoch(*loader, 0);
    const double ns = Nanoseconds(CLOCK_MONOTONIC, [&] { loader.reset(); });
    ours.Add(ns);
    BareProcesses bare(workers, kPause);
    bare_stops.Add(
        Nanoseconds(CLOCK_MONOTONIC, [&] { bare.TerminateAndWait(); }));
    state.SetIterationTime(ns * 1e-9);
  }
  SetCounters(state, ours, bare_stops);
  state.counters["vs_bare"] = ours.Median() / bare_stops.Median();
}
BENCHMARK(BM_Stop)
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->Arg(8)
    ->Iterations(21)
    ->UseManualTime();

// As Next() and LocalSource call it. Each measured batch seems to take 1 ms.
int64_t LongClock() {
  static int64_t ahead_ns = 0;
  ahead_ns += 1'000'000;
  return MonotonicNs() + ahead_ns;
}
int64_t NoClock() { return 1; }

void BM_Counters(benchmark::State& state) {
  const bool measured = state.range(0) != 0;
  constexpr uint64_t kEvents = 256;
  const auto words =
      std::make_unique<SharedWord<uint64_t>[]>(StatsWords(kEvents));
  StageMeter meter(words.get(), kEvents, measured ? &LongClock : &NoClock);
  int64_t number = 0;
  for (auto _ : state) {
    meter.Begin(Stage::kTake);
    meter.SetBatch(0, ++number);
    meter.Enter(Stage::kQueue);
    meter.Enter(Stage::kLoad);
    meter.Enter(Stage::kTake);
    meter.SetBatch(0, number);
    meter.Done(1);
    meter.Enter(Stage::kUse);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_Counters)->ArgName("measured")->Arg(0)->Arg(1);

int BareMain(bool pauses) {
  // However the benchmark ends.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() == 1) return 1;
  if (write(STDOUT_FILENO, "x", 1) != 1) return 1;
  while (pauses) pause();
  return 0;
}

}  // namespace
}  // namespace tenon::loader

int main(int argc, char** argv) {
  const absl::string_view mode = argc == 2 ? argv[1] : "";
  if (mode == tenon::loader::kStart) return tenon::loader::BareMain(false);
  if (mode == tenon::loader::kPause) return tenon::loader::BareMain(true);
  tenon::spawn::Init(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (benchmark::RunSpecifiedBenchmarks() == 0) {
    std::fprintf(stderr, "no benchmark has run\n");
    return 1;
  }
}
