// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What tensors of 1 KiB in flight cost, by strategy: one process creates them
// and keeps them, another receives and keeps them, both through a TensorQueue.
// Counters, of both processes, beyond what they had before:
//   tensors                           received and held by both
//   sender_fds, receiver_fds          descriptors
//   sender_mappings, receiver_mappings
//   sender_bytes, receiver_bytes      of memory: proportional set size, which
//                                     leaves out pages that are not mapped yet
// If fewer arrive than were wanted, the label is the error that the first call
// returned that failed, and goes_on is 1 if the same call succeeds once the
// eight oldest tensors are released. `fd_limit` is the limit of descriptors
// (RLIMIT_NOFILE) of both; 0: the hard limit.
//
//   ./bazelw run -c opt //benchmarks:in_flight_benchmark

#include <dirent.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"

namespace tenon {
namespace {

using A = StdAtomics;

constexpr size_t kBytes = 1024;
enum Strategy : int64_t { kPooled, kDescriptor, kName };

Deadline Soon() { return Deadline::After(absl::Minutes(2)); }

// ---- What a process has. ----

struct Use {
  double fds = 0;
  double mappings = 0;
  double bytes = 0;
};

Use operator-(const Use& now, const Use& before) {
  return {now.fds - before.fds, now.mappings - before.mappings,
          now.bytes - before.bytes};
}

double CountFds() {
  DIR* const folder = opendir("/proc/self/fd");
  TENON_CHECK(folder != nullptr, "/proc/self/fd");
  double count = -3;  // ".", "..", and this one.
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

Use UseOfThisProcess() {
  Use use;
  use.fds = CountFds();
  std::ifstream maps("/proc/self/maps");
  use.mappings = static_cast<double>(
      std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string word; rollup >> word;) {
    if (word == "Pss:") {
      rollup >> use.bytes;
      use.bytes *= 1024;
      break;
    }
  }
  return use;
}

// At a limit nothing could be opened to count what there is. The oldest tensors
// have been received; a queue keeps the descriptor of any other, so to release
// that tensor would free none.
void DropSome(std::vector<Tensor>& held) {
  held.erase(held.begin(),
             held.begin() + std::min<ptrdiff_t>(8, std::ssize(held)));
}

// The soft limit of descriptors; restores it.
class FdLimit {
 public:
  explicit FdLimit(int64_t limit) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit now = before_;
    now.rlim_cur = limit == 0 ? before_.rlim_max : static_cast<rlim_t>(limit);
    TENON_CHECK(setrlimit(RLIMIT_NOFILE, &now) == 0, "setrlimit");
  }
  ~FdLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  FdLimit(const FdLimit&) = delete;
  FdLimit& operator=(const FdLimit&) = delete;

 private:
  rlimit before_;
};

// ---- The receiver. ----

struct Shared {
  SharedWord<uint64_t> sent{0};      // Tensors, so far.
  SharedWord<uint64_t> all_sent{0};  // No more come.
  SharedWord<uint64_t> received{0};
  SharedWord<uint64_t> done{0};
  Use use;               // Valid when done.
  bool goes_on = false;  // After an error.
  std::array<char, 512> error = {};
};

absl::Status ReceiveAll(TensorQueue& queue, Shared& shared,
                        std::vector<Tensor>& held) {
  for (;;) {
    const bool all_sent = A::Load(shared.all_sent, std::memory_order_acquire);
    if (held.size() < A::Load(shared.sent, std::memory_order_acquire)) {
      TENON_ASSIGN_OR_RETURN(Tensor tensor, queue.GetTensor(Soon()));
      held.push_back(std::move(tensor));
      A::Store(shared.received, held.size(), std::memory_order_release);
    } else if (all_sent) {
      return absl::OkStatus();
    } else {
      A::Pause();
    }
  }
}

void Receive(QueueHandle handle, Shared& shared) {
  const Use before = UseOfThisProcess();
  std::vector<Tensor> held;
  auto queue = TensorQueue::Open(std::move(handle));
  absl::Status end = queue.status();
  if (end.ok()) end = ReceiveAll(**queue, shared, held);
  if (!end.ok()) DropSome(held);
  shared.use = UseOfThisProcess() - before;
  if (!end.ok()) {
    shared.goes_on =
        queue.ok() &&
        (*queue)->GetTensor(Deadline::After(absl::Seconds(20))).ok();
  }
  const std::string error = end.ok() ? "" : std::string(end.message());
  error.copy(shared.error.data(), shared.error.size() - 1);
  A::Store(shared.done, 1, std::memory_order_release);
}

// ---- The sender. ----

absl::StatusOr<Tensor> NewTensor(TensorQueue& queue, int64_t strategy) {
  static const std::array<std::byte, kBytes> bytes = {};
  constexpr int64_t kSize = kBytes;
  if (strategy == kPooled) {
    return queue.CreateTensor(kDtypeOf<uint8_t>, {kSize}, Soon());
  }
  return Tensor::CreateSharedFrom(
      kDtypeOf<uint8_t>, {kSize}, bytes,
      {.segment = {.strategy = strategy == kName
                                   ? SharingStrategy::kFileSystem
                                   : SharingStrategy::kFileDescriptor}});
}

// Until `count` are sent, a call fails, or the receiver has failed.
absl::Status SendAll(TensorQueue& queue, Shared& shared, int64_t strategy,
                     uint64_t count, std::vector<Tensor>& held) {
  while (held.size() < count) {
    if (A::Load(shared.done, std::memory_order_acquire)) break;
    TENON_ASSIGN_OR_RETURN(Tensor tensor, NewTensor(queue, strategy));
    TENON_RETURN_IF_ERROR(queue.Put(tensor, Soon()));
    held.push_back(std::move(tensor));
    A::Store(shared.sent, held.size(), std::memory_order_release);
    while (held.size() - A::Load(shared.received, std::memory_order_acquire) >
               32 &&
           !A::Load(shared.done, std::memory_order_acquire)) {
      A::Pause();
    }
  }
  return absl::OkStatus();
}

bool PutsAnother(TensorQueue& queue, int64_t strategy) {
  const auto tensor = NewTensor(queue, strategy);
  return tensor.ok() &&
         queue.Put(*tensor, Deadline::After(absl::Seconds(20))).ok();
}

void Report(benchmark::State& state, const Shared& shared, const Use& sender,
            const absl::Status& sent) {
  state.counters["tensors"] =
      static_cast<double>(A::Load(shared.received, std::memory_order_acquire));
  const auto add = [&](const std::string& who, const Use& use) {
    state.counters[who + "_fds"] = use.fds;
    state.counters[who + "_mappings"] = use.mappings;
    state.counters[who + "_bytes"] = use.bytes;
  };
  add("sender", sender);
  add("receiver", shared.use);
  if (!sent.ok()) {
    state.SetLabel("sender: " + std::string(sent.message()));
  } else if (shared.error[0] != 0) {
    state.SetLabel(std::string("receiver: ") + shared.error.data());
  }
}

void BM_InFlight(benchmark::State& state) {
  const FdLimit limit(state.range(2));
  for (auto _ : state) {
    const SharedObject<Shared> shared;
    auto queue = TensorQueue::Create();
    TENON_CHECK(queue.ok(), queue.status().ToString());
    auto handle = (*queue)->Share();
    TENON_CHECK(handle.ok(), handle.status().ToString());
    auto child = ForkedChild::Fork(
        {.name = "receiver", .watchdog = absl::Minutes(10)},
        [&](const Reporter&) { Receive(*std::move(handle), *shared); });
    TENON_CHECK(child.ok(), child.status().ToString());
    const Use before = UseOfThisProcess();
    std::vector<Tensor> held;
    const absl::Status sent =
        SendAll(**queue, *shared, state.range(0),
                static_cast<uint64_t>(state.range(1)), held);
    A::Store(shared->all_sent, 1, std::memory_order_release);
    while (!A::Load(shared->done, std::memory_order_acquire)) {
      TENON_CHECK(!child->pid_fd().HasEnded() ||
                      A::Load(shared->done, std::memory_order_acquire),
                  "the receiver has ended");
      A::Pause();
    }
    // The sender may have reached its limit, too, if the receiver has.
    const bool ended = !sent.ok() || shared->error[0] != 0;
    if (ended) DropSome(held);
    const Use use = UseOfThisProcess() - before;
    Report(state, *shared, use, sent);
    state.counters["goes_on"] =
        !ended ||
        (sent.ok() ? shared->goes_on : PutsAnother(**queue, state.range(0)));
    const auto end = child->EndsWell();
    TENON_CHECK(end, std::string(end.message()));
  }
}
// Own segments end at the limit of storages that a receiver maps by default,
// 16,384.
BENCHMARK(BM_InFlight)
    ->ArgNames({"strategy", "tensors", "fd_limit"})
    ->ArgsProduct({{kPooled, kDescriptor, kName}, {100, 1'000, 10'000}, {0}})
    ->ArgsProduct({{kPooled, kDescriptor, kName}, {100'000}, {0}})
    ->ArgsProduct({{kPooled, kDescriptor, kName}, {10'000}, {1024}})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tenon
