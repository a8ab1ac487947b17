// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The peer libtorch of //benchmarks:compare: c10::ivalue::Future, the future of
// LibTorch. The works are those of futures/benchmark_support.h. Built by
// tools/install_peers, not by Bazel; the protocol with the benchmark is
// described in benchmarks/harness/peer_program.h.

#include <ATen/core/ivalue.h>
#include <sched.h>
#include <time.h>
#include <torch/version.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace {

using c10::IntType;
using c10::IValue;
using c10::ivalue::Future;
using FuturePtr = c10::intrusive_ptr<Future>;

FuturePtr NewFuture() { return c10::make_intrusive<Future>(IntType::get()); }

int64_t Chain(int64_t links) {
  const FuturePtr first = NewFuture();
  FuturePtr last = first;
  for (int64_t i = 0; i < links; ++i) {
    last = last->then(
        [](Future& before) { return IValue(before.value().toInt() + 1); },
        IntType::get());
  }
  first->markCompleted(IValue(int64_t{0}));
  last->wait();
  return last->value().toInt();
}

int64_t CollectAll(int64_t count) {
  std::vector<FuturePtr> promises;
  c10::List<FuturePtr> futures(c10::FutureType::create(IntType::get()));
  promises.reserve(static_cast<size_t>(count));
  futures.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    promises.push_back(NewFuture());
    futures.push_back(promises.back());
  }
  const FuturePtr all = c10::collectAll(futures);
  for (int64_t i = 0; i < count; ++i) {
    promises[static_cast<size_t>(i)]->markCompleted(IValue(i));
  }
  all->wait();
  int64_t sum = 0;
  const c10::IValue value = all->value();
  for (const IValue& each : value.toListRef()) {
    sum += each.toFuture()->value().toInt();
  }
  return sum;
}

struct Row {
  const char* name;
  int64_t (*work)(int64_t);
  int64_t size;
  int64_t expected;
};
constexpr Row kRows[] = {
    {"future.set_wait", Chain, 0, 0},
    {"future.then", Chain, 1, 1},
    {"future.chain_1000", Chain, 1000, 1000},
    {"future.collect_1000", CollectAll, 1000, 1000 * 999 / 2},
};

double Nanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 +
         static_cast<double>(now.tv_nsec);
}

// False if a result is wrong.
bool Run(const Row& row, int count) {
  const double begin = Nanoseconds();
  for (int i = 0; i < count; ++i) {
    if (row.work(row.size) != row.expected) return false;
  }
  std::printf("ns %.3f\n", (Nanoseconds() - begin) / count);
  return true;
}

void PinTo(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

const char* ValueOf(const char* flag, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const size_t length = std::strlen(flag);
    if (std::strncmp(argv[i], flag, length) == 0) return argv[i] + length;
  }
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string name = ValueOf("--row=", argc, argv);
  const Row* row = nullptr;
  for (const Row& each : kRows) {
    if (name == each.name) row = &each;
  }
  if (row == nullptr) {
    std::printf("unsupported this row is not implemented\n");
    return 0;
  }
  // Alive throughout, as in the other subjects: with a single thread the C
  // library omits the atomic steps of mutexes.
  std::promise<void> end;
  std::thread second([&end] { end.get_future().wait(); });
  PinTo(std::atoi(ValueOf("--cores=", argc, argv)));
  std::printf("ready c10::ivalue::Future of LibTorch %s\n", TORCH_VERSION);
  bool ok = true;
  char line[64];
  while (ok && std::fgets(line, sizeof(line), stdin) != nullptr) {
    int count = 0;
    ok = std::sscanf(line, "turn %d", &count) == 1 && count > 0 &&
         Run(*row, count);
  }
  end.set_value();
  second.join();
  return ok ? 0 : 1;
}
