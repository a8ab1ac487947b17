// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The cost of Segment over the necessary system calls: seals and reserved pages
// are part of the limit, checks and errors are not.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "benchmark/benchmark.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/testing/versus.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace tenon {
namespace {

constexpr auto kFileDescriptor = SharingStrategy::kFileDescriptor;
constexpr auto kFileSystem = SharingStrategy::kFileSystem;
constexpr int kSeals =
    F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE;

absl::Status Fail(const char* call) { return PosixError(errno, call, "limit"); }

size_t SizeOf(const benchmark::State& state) {
  return static_cast<size_t>(state.range(0));
}

// Maps, reads one byte, unmaps.
absl::Status MapRaw(int fd, size_t size_bytes, int protection) {
  void* data = mmap(nullptr, size_bytes, protection, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return Fail("mmap");
  benchmark::DoNotOptimize(data);
  return munmap(data, size_bytes) == 0 ? absl::OkStatus() : Fail("munmap");
}

// Sets the size, too.
absl::Status ReserveRaw(int fd, size_t size_bytes) {
  const auto size = static_cast<off_t>(size_bytes);
  return fallocate(fd, 0, 0, size) == 0 ? absl::OkStatus() : Fail("fallocate");
}

// As CreateOwnerWritten(): mapped before it is sealed.
absl::Status CreateMemfdRaw(size_t size_bytes) {
  const UniqueFd fd(memfd_create(
      "benchmark", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  TENON_RETURN_IF_ERROR(ReserveRaw(fd.get(), size_bytes));
  void* data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                    fd.get(), 0);
  if (data == MAP_FAILED) return Fail("mmap");
  benchmark::DoNotOptimize(data);
  const bool sealed = fcntl(fd.get(), F_ADD_SEALS, kSeals) == 0;
  munmap(data, size_bytes);
  return sealed ? absl::OkStatus() : Fail("fcntl");
}

// Under an unguessable name, as Segment::Create().
absl::Status CreateNamedRaw(size_t size_bytes) {
  uint64_t drawn[2];
  if (getrandom(drawn, sizeof(drawn), 0) < 0) return Fail("getrandom");
  char name[64];
  snprintf(name, sizeof(name), "/tenon_benchmark_%016" PRIx64 "%016" PRIx64,
           drawn[0], drawn[1]);
  const UniqueFd fd(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0400));
  if (!fd.valid()) return Fail("shm_open");
  TENON_RETURN_IF_ERROR(ReserveRaw(fd.get(), size_bytes));
  if (fchmod(fd.get(), 0600) != 0) return Fail("fchmod");
  TENON_RETURN_IF_ERROR(MapRaw(fd.get(), size_bytes, PROT_READ | PROT_WRITE));
  return shm_unlink(name) == 0 ? absl::OkStatus() : Fail("shm_unlink");
}

absl::Status FillRaw(const std::vector<std::byte>& from) {
  const UniqueFd fd(memfd_create(
      "benchmark", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  TENON_RETURN_IF_ERROR(ReserveRaw(fd.get(), from.size()));
  if (pwrite(fd.get(), from.data(), from.size(), 0) !=
      static_cast<ssize_t>(from.size())) {
    return Fail("pwrite");
  }
  if (fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) return Fail("fcntl");
  return MapRaw(fd.get(), from.size(), PROT_READ);
}

absl::Status MapAndCopyRaw(const std::vector<std::byte>& from) {
  const UniqueFd fd(memfd_create(
      "benchmark", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  TENON_RETURN_IF_ERROR(ReserveRaw(fd.get(), from.size()));
  void* data = mmap(nullptr, from.size(), PROT_READ | PROT_WRITE, MAP_SHARED,
                    fd.get(), 0);
  if (data == MAP_FAILED) return Fail("mmap");
  std::memcpy(data, from.data(), from.size());
  const bool sealed = fcntl(fd.get(), F_ADD_SEALS, kSeals) == 0;
  munmap(data, from.size());
  return sealed ? absl::OkStatus() : Fail("fcntl");
}

void BM_CreateMapClose(benchmark::State& state, SharingStrategy strategy) {
  const size_t size_bytes = SizeOf(state);
  const auto ours = [&] {
    return Segment::CreateOwnerWritten(size_bytes, {.strategy = strategy})
        .status();
  };
  MeasureVersus(state, ours, [&] {
    return strategy == kFileDescriptor ? CreateMemfdRaw(size_bytes)
                                       : CreateNamedRaw(size_bytes);
  });
}

absl::Status FillAndMap(const std::vector<std::byte>& from,
                        SharingStrategy strategy) {
  TENON_ASSIGN_OR_RETURN(const Segment segment,
                         Segment::CreateFilled(from, SegmentKind::kOwnerWritten,
                                               {.strategy = strategy}));
  return segment.MapReadOnly().status();
}

void BM_FillMapClose(benchmark::State& state) {
  const std::vector<std::byte> from(SizeOf(state), std::byte{1});
  MeasureVersus(
      state, [&] { return FillAndMap(from, kFileDescriptor); },
      [&] { return FillRaw(from); });
}

// The purpose of CreateFilled(): faster than the limit.
void BM_FillMapClose_VersusMapAndCopy(benchmark::State& state) {
  const std::vector<std::byte> from(SizeOf(state), std::byte{1});
  MeasureVersus(
      state, [&] { return FillAndMap(from, kFileDescriptor); },
      [&] { return MapAndCopyRaw(from); });
}

absl::Status AdoptRaw(int received, size_t size_bytes) {
  const UniqueFd fd(dup(received));
  struct stat file;
  if (fcntl(fd.get(), F_GET_SEALS) < 0) return Fail("fcntl");
  if (fstat(fd.get(), &file) != 0) return Fail("fstat");
  if (fcntl(fd.get(), F_SETFD, FD_CLOEXEC) != 0) return Fail("fcntl");
  return MapRaw(fd.get(), size_bytes, PROT_READ);
}

absl::Status Adopt(int received) {
  TENON_ASSIGN_OR_RETURN(
      const Segment segment,
      Segment::Adopt(UniqueFd(dup(received)), SegmentKind::kOwnerWritten));
  return segment.MapReadOnly().status();
}

absl::Status OpenRaw(const std::string& name) {
  const UniqueFd fd(shm_open(name.c_str(), O_RDONLY, 0));
  if (!fd.valid()) return Fail("shm_open");
  struct stat file;
  if (fstat(fd.get(), &file) != 0) return Fail("fstat");
  return MapRaw(fd.get(), static_cast<size_t>(file.st_size), PROT_READ);
}

absl::Status Open(const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const Segment segment,
                         Segment::Open(name, SegmentKind::kOwnerWritten));
  return segment.MapReadOnly().status();
}

void BM_OpenMapClose(benchmark::State& state, SharingStrategy strategy) {
  const size_t size_bytes = SizeOf(state);
  const auto made =
      Segment::CreateOwnerWritten(size_bytes, {.strategy = strategy});
  if (!made.ok()) {
    state.SkipWithError(made.status().ToString().c_str());
    return;
  }
  if (strategy == kFileDescriptor) {
    const int fd = made->segment.fd();
    MeasureVersus(
        state, [&] { return Adopt(fd); },
        [&] { return AdoptRaw(fd, size_bytes); });
    return;
  }
  MeasureVersus(
      state, [&] { return Open(made->segment.name()); },
      [&] { return OpenRaw(made->segment.name()); });
}

// Creates a segment with the options and writes it once.
absl::Status CreateAndWrite(const std::vector<std::byte>& from,
                            const SegmentOptions& options) {
  TENON_ASSIGN_OR_RETURN(const auto owned,
                         Segment::CreateOwnerWritten(from.size(), options));
  std::memcpy(owned.mapping.data(), from.data(), from.size());
  return absl::OkStatus();
}

// The limit of the variants is the segment without them.
void BM_CreateWriteClose(benchmark::State& state,
                         const SegmentOptions& options) {
  const std::vector<std::byte> from(SizeOf(state), std::byte{1});
  MeasureVersus(
      state, [&] { return CreateAndWrite(from, options); },
      [&] { return CreateAndWrite(from, {.strategy = kFileDescriptor}); });
}

// One byte of each page in an order that no prefetcher predicts.
absl::Status Walk(const WritableMapping& mapping) {
  const size_t pages = mapping.size_bytes() / 4096;
  uint64_t state = 1;
  unsigned sum = 0;
  for (size_t i = 0; i < pages; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const size_t page = (state >> 33) % pages;
    sum += std::to_integer<unsigned>(
        mapping.data()[page * 4096 + (state & 63) * 64]);
  }
  benchmark::DoNotOptimize(sum);
  return absl::OkStatus();
}

// A kept segment of huge pages; the limit is one of small pages.
void BM_WalkKept_HugePages(benchmark::State& state) {
  const size_t size_bytes = SizeOf(state);
  const auto small = Segment::CreateOwnerWritten(
      size_bytes, {.strategy = kFileDescriptor, .prefault = true});
  const auto huge =
      Segment::CreateOwnerWritten(size_bytes, {.strategy = kFileDescriptor,
                                               .huge_pages = HugePages::kTry,
                                               .prefault = true});
  if (!small.ok() || !huge.ok() ||
      huge->segment.pages() == SegmentPages::kSmall) {
    state.SkipWithError("there are no huge pages here");
    return;
  }
  MeasureVersus(
      state, [&] { return Walk(huge->mapping); },
      [&] { return Walk(small->mapping); });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  for (int64_t bytes : {4 << 10, 1 << 20, 16 << 20}) benchmark->Arg(bytes);
  benchmark->ArgName("bytes")->UseManualTime();
}

void Large(benchmark::internal::Benchmark* benchmark) {
  benchmark->Arg(16 << 20)->ArgName("bytes")->UseManualTime();
}

BENCHMARK_CAPTURE(BM_CreateMapClose, file_descriptor, kFileDescriptor)
    ->Apply(Sizes);
BENCHMARK_CAPTURE(BM_CreateMapClose, file_system, kFileSystem)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_OpenMapClose, file_descriptor, kFileDescriptor)
    ->Apply(Sizes);
BENCHMARK_CAPTURE(BM_OpenMapClose, file_system, kFileSystem)->Apply(Sizes);
BENCHMARK(BM_FillMapClose)->Apply(Sizes);
BENCHMARK(BM_FillMapClose_VersusMapAndCopy)->Apply(Sizes);
BENCHMARK_CAPTURE(BM_CreateWriteClose, prefault,
                  {.strategy = kFileDescriptor, .prefault = true})
    ->Apply(Large);
BENCHMARK_CAPTURE(BM_CreateWriteClose, huge_pages,
                  {.strategy = kFileDescriptor, .huge_pages = HugePages::kTry})
    ->Apply(Large);
BENCHMARK_CAPTURE(BM_CreateWriteClose, numa_node,
                  {.strategy = kFileDescriptor, .numa_node = 0})
    ->Apply(Large);
BENCHMARK(BM_WalkKept_HugePages)->Apply(Large);

}  // namespace
}  // namespace tenon
