// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/device_arena_testing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/block_store.h"
#include "tenon/shm/arena/memory_kind.h"
#include "tenon/shm/arena/memory_kind_id.h"
#include "tenon/shm/arena/stored_segment.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/device_testing.h"

namespace tenon {
namespace {

constexpr MemoryKindId kDeviceKind = MemoryKindId{12};

constinit bool swapped = false;

DeviceIdentity IdentityOf(int device) {
  return {'d', 'e', 'v', static_cast<uint8_t>(device)};
}

class DeviceSegment final : public StoredSegment {
 public:
  DeviceSegment(int device, UniqueFd fd, size_t bytes)
      : StoredSegment(bytes), device_(device), fd_(std::move(fd)) {}

  int fd() const override { return fd_.get(); }
  absl::Status Map() override {
    if (memory_ != nullptr) return absl::OkStatus();
    memory_ = TestDevices::Get().MapMemory(device_, fd_.get(), size_bytes());
    set_data(memory_.get());
    return absl::OkStatus();
  }

 private:
  const int device_;
  const UniqueFd fd_;
  std::shared_ptr<std::byte> memory_;
};

class DeviceStore final : public BlockStore {
 public:
  explicit DeviceStore(int device)
      : BlockStore({.kind = kDeviceKind,
                    .identity = IdentityOf(device),
                    .device = TestDevices::Get().device(device)}) {}

  absl::StatusOr<std::unique_ptr<StoredSegment>> Create(size_t bytes) override {
    UniqueFd fd(memfd_create("test device", MFD_CLOEXEC));
    TENON_CHECK(
        fd.valid() && ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0,
        "a segment of a test's device");
    auto made = std::make_unique<DeviceSegment>(facts().device.device_id,
                                                std::move(fd), bytes);
    if (absl::Status mapped = made->Map(); !mapped.ok()) return mapped;
    return made;
  }
};

class DeviceKind final : public MemoryKind {
 public:
  constexpr DeviceKind() : MemoryKind(kDeviceKind) {}

  absl::StatusOr<DLDevice> DeviceOf(
      const DeviceIdentity& identity) const override {
    const int number = identity[3];
    if (number > 1 || identity != IdentityOf(number)) {
      return absl::FailedPreconditionError("this process has no such device");
    }
    return TestDevices::Get().device(swapped ? 1 - number : number);
  }
  absl::StatusOr<std::unique_ptr<StoredSegment>> Open(
      OfferedSegment offered) const override {
    const absl::StatusOr<DLDevice> device = DeviceOf(offered.identity);
    if (!device.ok()) return device.status();
    const auto bytes =
        static_cast<size_t>(lseek(offered.fd.get(), 0, SEEK_END));
    return std::make_unique<DeviceSegment>(device->device_id,
                                           std::move(offered.fd), bytes);
  }
};

constexpr DeviceKind kKind;

}  // namespace

absl::StatusOr<std::shared_ptr<Arena>> CreateDeviceArena(
    int device, const ArenaOptions& options) {
  TENON_CHECK(RegisterMemoryKind(kKind).ok(), "kind 12 is taken");
  return Arena::Create(options, std::make_unique<DeviceStore>(device));
}

void SwapDevicesOfOthers() { swapped = true; }

}  // namespace tenon
