// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of a tensor created by another process, by strategy: in a segment of
// its own by descriptor or by name, or in a pooled segment that was sent once.
//
//   ./bazelw run -c opt //benchmarks:sharing_benchmark
//
// One iteration: this process sends a request, the producer fills the tensor
// and sends its handle, this process reads every byte. The limit is measured in
// the same run, right before each case: the same fill and the same reading in
// one process over memory that is already mapped. `vs_limit` is the ratio of
// the two; the part above 1 is the cost of the transfer, including the wakes of
// both sides.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "benchmark/benchmark.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/process/process.h"

namespace tenon {
namespace {

enum class Way : uint8_t { kFreshByDescriptor, kFreshByName, kPooled };

struct Request {
  Way way;
  uint64_t size_bytes;
};

Deadline Soon() { return Deadline::After(absl::Seconds(30)); }

void Fill(std::span<std::byte> bytes) {
  std::memset(bytes.data(), 42, bytes.size());
}

uint64_t Read(std::span<const std::byte> bytes) {
  const auto* words = reinterpret_cast<const uint64_t*>(bytes.data());
  return std::accumulate(words, words + bytes.size() / sizeof(uint64_t),
                         uint64_t{0});
}

// The producer's side: fills tensors on request.
class Producer {
 public:
  explicit Producer(Channel channel) : channel_(std::move(channel)) {}

  absl::Status Run() {
    for (;;) {
      absl::StatusOr<Message> message = channel_.Receive(Deadline::Never());
      if (absl::IsUnavailable(message.status())) return absl::OkStatus();
      TENON_RETURN_IF_ERROR(message.status());
      ArchiveReader reader(message->bytes);
      Request request;
      TENON_ASSIGN_OR_RETURN(request.way, reader.Get<Way>());
      TENON_ASSIGN_OR_RETURN(request.size_bytes, reader.Get<uint64_t>());
      TENON_RETURN_IF_ERROR(request.way == Way::kPooled ? Pooled(request)
                                                        : Fresh(request));
    }
  }

 private:
  absl::Status Fresh(const Request& request) {
    const bool by_name = request.way == Way::kFreshByName;
    // The previous tensor is released only now: its name must last until it is
    // read.
    TENON_ASSIGN_OR_RETURN(
        fresh_, Segment::CreateOwnerWritten(
                    request.size_bytes,
                    {.strategy = by_name ? SharingStrategy::kFileSystem
                                         : SharingStrategy::kFileDescriptor}));
    Fill(fresh_->mapping.bytes());
    return by_name ? channel_.Send(fresh_->segment.name(), {}, Soon())
                   : SendDescriptorOf(fresh_->segment);
  }

  absl::Status Pooled(const Request& request) {
    const bool is_new =
        !pooled_ || pooled_->segment.size_bytes() != request.size_bytes;
    if (is_new) {
      TENON_ASSIGN_OR_RETURN(
          pooled_, Segment::CreateOwnerWritten(
                       request.size_bytes,
                       {.strategy = SharingStrategy::kFileDescriptor}));
    }
    Fill(pooled_->mapping.bytes());
    return is_new ? SendDescriptorOf(pooled_->segment)
                  : channel_.Send("filled", {}, Soon());
  }

  absl::Status SendDescriptorOf(const Segment& segment) {
    const int fd = segment.fd();
    return channel_.Send("filled", {&fd, 1}, Soon());
  }

  Channel channel_;
  std::optional<Segment::OwnerWritten> fresh_;
  std::optional<Segment::OwnerWritten> pooled_;
};

absl::Status RunProducer(spawn::Child& child) {
  TENON_ASSIGN_OR_RETURN(Channel channel, Channel::Adopt(child.TakeFd(0)));
  return Producer(std::move(channel)).Run();
}

TENON_SPAWN_ENTRY("sharing_benchmark.producer", RunProducer);

// The consumer's side.
class Consumer {
 public:
  static absl::StatusOr<std::unique_ptr<Consumer>> Start() {
    TENON_ASSIGN_OR_RETURN(auto ends, Channel::CreatePair());
    spawn::ProcessOptions options = {.entry = "sharing_benchmark.producer"};
    options.fds.push_back(ends.second.Release());
    TENON_ASSIGN_OR_RETURN(spawn::Process process,
                           spawn::Process::Start(std::move(options)));
    return absl::WrapUnique(
        new Consumer(std::move(process), std::move(ends.first)));
  }

  // The producer removes the names of its segments once the channel closes;
  // killing it would prevent that.
  ~Consumer() {
    channel_.Release().Reset();
    process_.Join(Soon()).IgnoreError();
  }

  // Gets one tensor and reads it.
  absl::StatusOr<uint64_t> Get(const Request& request) {
    ArchiveWriter writer;
    writer.Put(request.way);
    writer.Put(request.size_bytes);
    TENON_RETURN_IF_ERROR(channel_.Send(writer.bytes(), {}, Soon()));
    TENON_ASSIGN_OR_RETURN(Message message, channel_.Receive(Soon()));
    if (request.way == Way::kPooled) {
      if (!message.fds.empty()) {
        TENON_ASSIGN_OR_RETURN(pooled_, Map(std::move(message)));
      }
      return Read(pooled_.bytes());
    }
    TENON_ASSIGN_OR_RETURN(const ReadOnlyMapping fresh,
                           Map(std::move(message)));
    return Read(fresh.bytes());
  }

 private:
  Consumer(spawn::Process process, Channel channel)
      : process_(std::move(process)), channel_(std::move(channel)) {}

  static absl::StatusOr<ReadOnlyMapping> Map(Message message) {
    constexpr auto kKind = SegmentKind::kOwnerWritten;
    absl::StatusOr<Segment> segment =
        message.fds.empty() ? Segment::Open(message.bytes, kKind)
                            : Segment::Adopt(std::move(message.fds[0]), kKind);
    TENON_RETURN_IF_ERROR(segment.status());
    return segment->MapReadOnly();
  }

  spawn::Process process_;
  Channel channel_;
  ReadOnlyMapping pooled_;
};

// Seconds for filling and reading `size_bytes` in one process: the best of
// several runs, since this is a limit.
double LimitSeconds(size_t size_bytes) {
  std::vector<std::byte> memory(size_bytes);
  double best = 1e9;
  for (int i = 0; i < 10; ++i) {
    const auto began = std::chrono::steady_clock::now();
    Fill(memory);
    benchmark::DoNotOptimize(memory.data());
    benchmark::DoNotOptimize(Read(memory));
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - began;
    best = std::min(best, took.count());
  }
  return best;
}

void BM_Share(benchmark::State& state, Way way) {
  const auto size_bytes = static_cast<size_t>(state.range(0));
  const double limit = LimitSeconds(size_bytes);
  absl::StatusOr<std::unique_ptr<Consumer>> consumer = Consumer::Start();
  if (!consumer.ok()) {
    return state.SkipWithError(consumer.status().ToString().c_str());
  }
  const auto began = std::chrono::steady_clock::now();
  for (auto _ : state) {
    absl::StatusOr<uint64_t> sum = (*consumer)->Get({way, size_bytes});
    if (!sum.ok()) {
      return state.SkipWithError(sum.status().ToString().c_str());
    }
    benchmark::DoNotOptimize(*sum);
  }
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - began;
  const auto iterations = static_cast<double>(state.iterations());
  state.counters["vs_limit"] = took.count() / iterations / limit;
  state.SetBytesProcessed(static_cast<int64_t>(iterations) * state.range(0));
}

void Sizes(benchmark::internal::Benchmark* cases) {
  cases->ArgName("bytes")->Arg(4 << 10)->Arg(1 << 20)->Arg(16 << 20);
  cases->UseRealTime();
}

BENCHMARK_CAPTURE(BM_Share, fresh_by_descriptor, Way::kFreshByDescriptor)
    ->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Share, fresh_by_name, Way::kFreshByName)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_Share, pooled, Way::kPooled)->Apply(Sizes);

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const bool ran = benchmark::RunSpecifiedBenchmarks() > 0;
  benchmark::Shutdown();
  return ran ? 0 : 1;
}
