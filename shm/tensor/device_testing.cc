// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/device_testing.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/device_memory.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {
namespace {

constexpr int kDevices = 2;

std::byte* Map(int fd, size_t size, int protection) {
  void* const address = mmap(nullptr, size, protection, MAP_SHARED, fd, 0);
  TENON_CHECK(address != MAP_FAILED, "mmap() of a test's device memory");
  return static_cast<std::byte*>(address);
}

}  // namespace

TestDevices& TestDevices::Get(DLDeviceType type) {
  static const auto make = [](DLDeviceType made) {
    std::unique_ptr<TestDevices> devices(new TestDevices(made));
    TestDevices& result = *devices;
    TENON_CHECK(RegisterDeviceMemory(made, std::move(devices)).ok(),
                "TestDevices of a type that has others");
    return &result;
  };
  if (type == kDLExtDev) {
    static TestDevices& usual = *make(kDLExtDev);
    return usual;
  }
  TENON_CHECK(type == kDLVPI, "TestDevices are kDLExtDev or kDLVPI");
  static TestDevices& others = *make(kDLVPI);
  return others;
}

std::shared_ptr<std::byte> TestDevices::NewMemory(int number,
                                                  size_t bytes) const {
  const int fd = memfd_create("test device", MFD_CLOEXEC);
  TENON_CHECK(fd >= 0 && ftruncate(fd, static_cast<off_t>(bytes)) == 0,
              "a test's device memory");
  std::shared_ptr<std::byte> memory = MapMemory(number, fd, bytes);
  close(fd);
  std::memset(Alias(memory.get()), 0xcd, bytes);
  return memory;
}

std::shared_ptr<std::byte> TestDevices::MapMemory(int number, int fd,
                                                  size_t bytes) const {
  std::byte* const alias = Map(fd, bytes, PROT_READ | PROT_WRITE);
  std::byte* const address = Map(fd, bytes, PROT_NONE);
  {
    const ThreadLock lock(&mutex_);
    memory_[reinterpret_cast<uintptr_t>(address)] = {
        .device = number, .size = bytes, .alias = alias};
  }
  ++allocations_;
  return std::shared_ptr<std::byte>(
      address, [this, made_under = ForkCount()](const std::byte* freed) {
        if (ForkCount() == made_under) Free(freed);
      });
}

void TestDevices::Free(const std::byte* address) const {
  Memory freed;
  {
    const ThreadLock lock(&mutex_);
    const auto found = memory_.find(reinterpret_cast<uintptr_t>(address));
    freed = found->second;
    memory_.erase(found);
  }
  munmap(freed.alias, freed.size);
  munmap(const_cast<std::byte*>(address), freed.size);
  --allocations_;
}

std::byte* TestDevices::Find(const DLDevice& device, const std::byte* address,
                             size_t bytes) const {
  const auto first = reinterpret_cast<uintptr_t>(address);
  const ThreadLock lock(&mutex_);
  auto after = memory_.upper_bound(first);
  if (after == memory_.begin()) return nullptr;
  const auto& [start, memory] = *std::prev(after);
  const size_t offset = first - start;
  if (memory.device != device.device_id || offset > memory.size ||
      bytes > memory.size - offset) {
    return nullptr;
  }
  return memory.alias + offset;
}

std::byte* TestDevices::Alias(const std::byte* address) const {
  for (int number = 0; number < kDevices; ++number) {
    std::byte* const alias = Find(device(number), address, 1);
    if (alias != nullptr) return alias;
  }
  return nullptr;
}

absl::Status TestDevices::Copy(const To& to, const From& from) const {
  if (++copies_ == fails_at_.load()) {
    return absl::InternalError("Copy(): the test lets it fail");
  }
  const size_t bytes = from.bytes.size();
  std::byte* const to_alias = DeviceType(to.device) == type_
                                  ? Find(to.device, to.bytes.data(), bytes)
                                  : to.bytes.data();
  const std::byte* const from_alias =
      DeviceType(from.device) == type_
          ? Find(from.device, from.bytes.data(), bytes)
          : from.bytes.data();
  if (to_alias == nullptr || from_alias == nullptr || bytes == 0 ||
      to.bytes.size() != bytes ||
      (DeviceType(to.device) != type_ && !IsOnCpu(to.device)) ||
      (DeviceType(from.device) != type_ && !IsOnCpu(from.device))) {
    return absl::InvalidArgumentError(
        absl::StrCat("Copy(): ", bytes, " bytes from ", DeviceName(from.device),
                     " to ", DeviceName(to.device), " are not there"));
  }
  const std::less<const std::byte*> before;
  if (before(to_alias, from_alias + bytes) &&
      before(from_alias, to_alias + bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Copy(): ", bytes, " bytes overlap"));
  }
  std::memcpy(to_alias, from_alias, bytes);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Storage>> TestDevices::Allocate(
    const DLDevice& device, size_t bytes) const {
  if (device.device_id >= kDevices) {
    return absl::NotFoundError(
        absl::StrCat("there is no ", DeviceName(device)));
  }
  auto memory = NewMemory(device.device_id, bytes);
  return Storage::FromLent({.data = memory.get(),
                            .size_bytes = bytes,
                            .writable = true,
                            .lender = memory,
                            .device = device});
}

absl::Status TestDevices::CheckLent(const DLDevice& device,
                                    std::span<const std::byte> bytes) const {
  if (Find(device, bytes.data(), bytes.size()) != nullptr) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("its ", bytes.size(),
                                                 " bytes are not in memory of ",
                                                 DeviceName(device)));
}

}  // namespace tenon
