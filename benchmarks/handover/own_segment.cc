// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/handover/own_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/must.h"

namespace tenon::benchmarks {
namespace {

class OwnFromBytes : public Subject {
 public:
  explicit OwnFromBytes(size_t size_bytes) : bytes_(size_bytes, std::byte{1}) {}

  void Ask(int count) override {
    for (int i = 0; i < count; ++i) {
      Check(Tensor::CreateSharedFrom(
                kDtypeOf<uint8_t>, {static_cast<int64_t>(bytes_.size())},
                bytes_,
                {.segment = {.strategy = SharingStrategy::kFileDescriptor}})
                .status());
    }
  }

 private:
  const std::vector<std::byte> bytes_;
};

class BarePwrite : public Subject {
 public:
  explicit BarePwrite(size_t size_bytes) : bytes_(size_bytes, std::byte{1}) {}

  void Ask(int count) override {
    for (int i = 0; i < count; ++i) MakeOne();
  }

 private:
  void MakeOne() const {
    const size_t size = bytes_.size();
    const UniqueFd fd(
        memfd_create("benchmark", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    TENON_CHECK(
        pwrite(fd.get(), bytes_.data(), size, 0) == static_cast<ssize_t>(size),
        "pwrite");
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    TENON_CHECK(fcntl(fd.get(), F_ADD_SEALS, kSeals) == 0, "F_ADD_SEALS");
    void* const mapped =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    TENON_CHECK(mapped != MAP_FAILED, "mmap");
    munmap(mapped, size);
  }

  const std::vector<std::byte> bytes_;
};

}  // namespace

std::unique_ptr<Subject> NewOwnFromBytes(size_t size_bytes) {
  return std::make_unique<OwnFromBytes>(size_bytes);
}
std::unique_ptr<Subject> NewBarePwrite(size_t size_bytes) {
  return std::make_unique<BarePwrite>(size_bytes);
}

}  // namespace tenon::benchmarks
