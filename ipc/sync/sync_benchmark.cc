// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of a Mutex beside a bare pthread mutex, and of a Semaphore and an
// Event beside a bare futex, in the same run.

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "benchmark/benchmark.h"
#include "tenon/ipc/sync/barrier.h"
#include "tenon/ipc/sync/condition.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/semaphore.h"
#include "tenon/shm/base/deadline.h"

namespace tenon {
namespace {

void LockBare(benchmark::State& state, bool robust) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (robust) pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_t mutex;
  pthread_mutex_init(&mutex, &attributes);
  for (auto _ : state) {
    pthread_mutex_lock(&mutex);
    benchmark::ClobberMemory();
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_destroy(&mutex);
  pthread_mutexattr_destroy(&attributes);
}

void BM_LockPthreadShared(benchmark::State& state) { LockBare(state, false); }
BENCHMARK(BM_LockPthreadShared);
void BM_LockPthreadRobust(benchmark::State& state) { LockBare(state, true); }
BENCHMARK(BM_LockPthreadRobust);

void BM_LockMutex(benchmark::State& state) {
  const Mutex mutex = Mutex::Create().value();
  for (auto _ : state) {
    const auto guard = mutex.Lock(Deadline::Never());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(BM_LockMutex);

void BM_AcquireAndReleaseSemaphore(benchmark::State& state) {
  const Semaphore semaphore = Semaphore::Create(1).value();
  for (auto _ : state) {
    semaphore.Acquire(Deadline::Never()).IgnoreError();
    semaphore.Release().IgnoreError();
  }
}
BENCHMARK(BM_AcquireAndReleaseSemaphore);

void BM_SetAndClearEvent(benchmark::State& state) {
  const Event event = Event::Create().value();
  for (auto _ : state) {
    event.Set().IgnoreError();
    event.Clear().IgnoreError();
  }
}
BENCHMARK(BM_SetAndClearEvent);

// Calls `there`, then `back`, against a thread that answers each.
template <typename There, typename Answer>
void RoundTrips(benchmark::State& state, const There& there,
                const Answer& answer) {
  std::atomic<uint64_t> rounds{UINT64_MAX};
  std::thread other([&] {
    for (uint64_t i = 0; i != rounds.load(); ++i) answer();
  });
  uint64_t count = 0;
  for (auto _ : state) {
    there();
    ++count;
  }
  rounds.store(count + 1);
  there();  // The other thread waits for it already.
  other.join();
}

// A futex with a word for each direction.
struct BareFutex {
  std::atomic<uint32_t> word{0};

  void Post() {
    word.store(1, std::memory_order_release);
    syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  void Wait() {
    uint32_t one = 1;
    while (!word.compare_exchange_strong(one, 0, std::memory_order_acquire)) {
      syscall(SYS_futex, &word, FUTEX_WAIT, 0, nullptr, nullptr, 0);
      one = 1;
    }
  }
};

void BM_RoundTripBareFutex(benchmark::State& state) {
  BareFutex there, back;
  RoundTrips(
      state,
      [&] {
        there.Post();
        back.Wait();
      },
      [&] {
        there.Wait();
        back.Post();
      });
}
BENCHMARK(BM_RoundTripBareFutex)->UseRealTime();

void BM_RoundTripSemaphore(benchmark::State& state) {
  const Semaphore there = Semaphore::Create(0).value();
  const Semaphore back = Semaphore::Create(0).value();
  RoundTrips(
      state,
      [&] {
        there.Release().IgnoreError();
        back.Acquire(Deadline::Never()).IgnoreError();
      },
      [&] {
        there.Acquire(Deadline::Never()).IgnoreError();
        back.Release().IgnoreError();
      });
}
BENCHMARK(BM_RoundTripSemaphore)->UseRealTime();

void BM_RoundTripEvent(benchmark::State& state) {
  const Event there = Event::Create().value();
  const Event back = Event::Create().value();
  RoundTrips(
      state,
      [&] {
        there.Set().IgnoreError();
        back.Wait(Deadline::Never()).IgnoreError();
        back.Clear().IgnoreError();
      },
      [&] {
        there.Wait(Deadline::Never()).IgnoreError();
        there.Clear().IgnoreError();
        back.Set().IgnoreError();
      });
}
BENCHMARK(BM_RoundTripEvent)->UseRealTime();

void BM_RoundTripCondition(benchmark::State& state) {
  const Mutex mutex = Mutex::Create().value();
  const Condition condition = Condition::Create().value();
  bool there = false;
  const auto turn = [&](bool mine) {
    auto guard = mutex.Lock(Deadline::Never());
    condition
        .WaitFor(
            *guard, [&] { return there == mine; }, Deadline::Never())
        .IgnoreError();
    there = !mine;
    condition.Notify(*guard).status().IgnoreError();
  };
  RoundTrips(
      state, [&] { turn(false); }, [&] { turn(true); });
}
BENCHMARK(BM_RoundTripCondition)->UseRealTime();

void BM_BarrierOfTwo(benchmark::State& state) {
  const Barrier barrier = Barrier::Create(2).value();
  const auto wait = [&] {
    barrier.Wait(Deadline::Never()).status().IgnoreError();
  };
  RoundTrips(state, wait, wait);
}
BENCHMARK(BM_BarrierOfTwo)->UseRealTime();

}  // namespace
}  // namespace tenon
