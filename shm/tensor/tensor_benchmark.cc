// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Copies of tensors beside memcpy(), and sharing one beside the system calls
// that put its bytes into a segment.

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/versus.h"

namespace tenon {
namespace {

// The tensor's elements are bytes.
absl::StatusOr<Tensor> MakeFull(int64_t bytes) {
  TENON_ASSIGN_OR_RETURN(Tensor tensor,
                         Tensor::Create(kDtypeOf<uint8_t>, {bytes}));
  TENON_RETURN_IF_ERROR(tensor.Fill(uint8_t{1}));
  return tensor;
}

void BM_TensorCopy(benchmark::State& state) {
  const auto from = MakeFull(state.range(0));
  const auto to = MakeFull(state.range(0));
  if (!from.ok() || !to.ok()) {
    state.SkipWithError("no memory");
    return;
  }
  const std::byte* source = from->storage()->Read().value();
  std::byte* target = to->storage()->Write().value();
  const auto size = static_cast<size_t>(state.range(0));
  MeasureVersus(
      state, [&] { return to->CopyFrom(*from); },
      [&] {
        std::memcpy(target, source, size);
        benchmark::ClobberMemory();
        return absl::OkStatus();
      });
}

// Twice the last-level cache; 256 MiB where the kernel does not know it.
int64_t ColdSetBytes() {
  const int64_t cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return std::max(2 * cache, int64_t{256} << 20);
}

// Source and target move on through a set each with every copy, so both have
// left the caches. set_mib is the size of each of the two.
void BM_TensorCopyCold(benchmark::State& state) {
  const int64_t size = state.range(0);
  const int64_t set = ColdSetBytes() / size * size;
  const auto from = MakeFull(set);
  const auto to = MakeFull(set);
  if (!from.ok() || !to.ok()) {
    state.SkipWithError("no memory");
    return;
  }
  const std::byte* source = from->storage()->Read().value();
  std::byte* target = to->storage()->Write().value();
  int64_t at = 0;
  const auto next = [&] { return at = (at + size) % set; };
  MeasureVersus(
      state,
      [&]() -> absl::Status {
        const int64_t begin = next();
        const SliceRange part = {.start = begin, .stop = begin + size};
        TENON_ASSIGN_OR_RETURN(Tensor there, to->Slice(0, part));
        TENON_ASSIGN_OR_RETURN(const Tensor here, from->Slice(0, part));
        return there.CopyFrom(here);
      },
      [&] {
        const int64_t begin = next();
        std::memcpy(target + begin, source + begin, static_cast<size_t>(size));
        benchmark::ClobberMemory();
        return absl::OkStatus();
      });
  state.counters["set_mib"] = static_cast<double>(set >> 20);
}

absl::Status ShareRaw(const std::byte* data, size_t size_bytes) {
  const UniqueFd fd(memfd_create("benchmark", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto size = static_cast<off_t>(size_bytes);
  const auto failed = [] { return PosixError(errno, "limit", "benchmark"); };
  if (pwrite(fd.get(), data, size_bytes, 0) != size) return failed();
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
      0) {
    return failed();
  }
  void* mapped = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      fd.get(), 0);
  if (mapped == MAP_FAILED) return failed();
  munmap(mapped, size_bytes);
  return absl::OkStatus();
}

// A clone is shared each time, and the clone counts; for the limit too.
void BM_TensorShare(benchmark::State& state) {
  const auto tensor = MakeFull(state.range(0));
  if (!tensor.ok()) {
    state.SkipWithError("no memory");
    return;
  }
  const auto ours = [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(Tensor clone, tensor->Clone());
    return clone.Share({.strategy = SharingStrategy::kFileDescriptor});
  };
  const auto size = static_cast<size_t>(state.range(0));
  MeasureVersus(state, ours, [&]() -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const Tensor clone, tensor->Clone());
    return ShareRaw(clone.storage()->Read().value(), size);
  });
}

// The bytes are there already; the limit is the same system calls.
void BM_TensorFromBytes(benchmark::State& state) {
  const std::vector<std::byte> bytes(static_cast<size_t>(state.range(0)),
                                     std::byte{1});
  MeasureVersus(
      state,
      [&] {
        return Tensor::CreateSharedFrom(
                   kDtypeOf<uint8_t>, {state.range(0)}, bytes,
                   {.segment = {.strategy = SharingStrategy::kFileDescriptor}})
            .status();
      },
      [&] { return ShareRaw(bytes.data(), bytes.size()); });
}

// The same; the limit is to create it of zeros and to copy.
void BM_TensorFromBytesOrByCopy(benchmark::State& state) {
  const std::vector<std::byte> bytes(static_cast<size_t>(state.range(0)),
                                     std::byte{1});
  const SharedTensorOptions options = {
      .segment = {.strategy = SharingStrategy::kFileDescriptor}};
  MeasureVersus(
      state,
      [&] {
        return Tensor::CreateSharedFrom(kDtypeOf<uint8_t>, {state.range(0)},
                                        bytes, options)
            .status();
      },
      [&]() -> absl::Status {
        TENON_ASSIGN_OR_RETURN(
            const Tensor tensor,
            Tensor::CreateShared(kDtypeOf<uint8_t>, {state.range(0)}, options));
        TENON_ASSIGN_OR_RETURN(const auto to, tensor.data<std::byte>());
        std::memcpy(to.data(), bytes.data(), bytes.size());
        return absl::OkStatus();
      });
}

// The limit of all new tensors: memcpy into memory that was written before.
void MeasureVersusWarm(
    benchmark::State& state,
    absl::FunctionRef<absl::Status(std::span<const std::byte>)> ours) {
  const std::vector<std::byte> from(static_cast<size_t>(state.range(0)),
                                    std::byte{1});
  std::vector<std::byte> to = from;
  MeasureVersus(
      state, [&] { return ours(from); },
      [&] {
        std::memcpy(to.data(), from.data(), from.size());
        benchmark::ClobberMemory();
        return absl::OkStatus();
      });
}

void BM_TensorFromBytesOrWarmMemory(benchmark::State& state) {
  MeasureVersusWarm(state, [](std::span<const std::byte> bytes) {
    return Tensor::CreateSharedFrom(
               kDtypeOf<uint8_t>, {static_cast<int64_t>(bytes.size())}, bytes,
               {.segment = {.strategy = SharingStrategy::kFileDescriptor}})
        .status();
  });
}

// A block is used again, and so are its pages.
void BM_TensorInArenaOrWarmMemory(benchmark::State& state) {
  const auto arena = Arena::Create();
  if (!arena.ok()) {
    state.SkipWithError("no arena");
    return;
  }
  MeasureVersusWarm(
      state, [&](std::span<const std::byte> bytes) -> absl::Status {
        TENON_ASSIGN_OR_RETURN(
            const Tensor tensor,
            CreateTensor(**arena, kDtypeOf<uint8_t>,
                         {static_cast<int64_t>(bytes.size())},
                         Deadline::Passed()));
        TENON_ASSIGN_OR_RETURN(const auto to, tensor.data<std::byte>());
        std::memcpy(to.data(), bytes.data(), bytes.size());
        benchmark::ClobberMemory();
        return absl::OkStatus();
      });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (int64_t bytes : {4 << 10, 1 << 20, 4 << 20, 16 << 20}) {
    benchmark->Arg(bytes);
  }
  benchmark->ArgName("bytes")->UseManualTime();
}

BENCHMARK(BM_TensorCopy)->Apply(Sizes);
BENCHMARK(BM_TensorCopyCold)
    ->ArgName("bytes")
    ->Arg(1 << 20)
    ->Arg(16 << 20)
    ->UseManualTime();
BENCHMARK(BM_TensorShare)->Apply(Sizes);
BENCHMARK(BM_TensorFromBytes)->Apply(Sizes);
BENCHMARK(BM_TensorFromBytesOrByCopy)->Apply(Sizes);
BENCHMARK(BM_TensorFromBytesOrWarmMemory)->Apply(Sizes);
BENCHMARK(BM_TensorInArenaOrWarmMemory)->Apply(Sizes);

}  // namespace
}  // namespace tenon
