// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/cuda_page_pinner.h"

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/devices.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/internal/retired_allocations.h"
#include "tenon/shm/arena/mapped_pages.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::cuda_ipc {
namespace {

// OK if the device can register memory that the CPU maps read-only.
absl::Status CheckReadOnly(const DeviceContext& device) {
  int value = 0;
  const CUresult asked = device.driver().cuDeviceGetAttribute(
      &value, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED,
      device.device().ordinal);
  // A driver does not know attributes that are newer than it is.
  if (asked == CUDA_ERROR_INVALID_VALUE) value = 0;
  if (asked != CUDA_SUCCESS && asked != CUDA_ERROR_INVALID_VALUE) {
    return device.Error(asked, "cuDeviceGetAttribute");
  }
  if (value != 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "device ", device.device().ordinal,
      " cannot register memory that is mapped read-only, as segments of other "
      "processes are: its attribute ",
      CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, " is 0"));
}

absl::Status CheckDevice(const DeviceContext& device) {
  return CheckFeature(device.driver(), device.device().ordinal,
                      DriverFeature::kHostRegister);
}

// A registration. In a forked child it is the parent's, and inert.
class Registration final : public MappedPages::Pin {
 public:
  Registration(const DeviceContext& device, std::byte* memory,
               std::unique_ptr<RetiredAllocations::Place> place)
      : device_(device), memory_(memory), place_(std::move(place)) {}

  ~Registration() override {
    // A second failure means that the context is lost, and the registration
    // with it.
    if (device_.CheckProcess().ok() && !Unregister().ok()) {
      Unregister().IgnoreError();
    }
  }

  const absl::Status& status() const override { return ok_; }

  void Retire(std::shared_ptr<MappedPages> pages) override {
    // In a forked child the range is unmapped here.
    if (!device_.CheckProcess().ok()) return;
    place_->registered = std::move(pages);
    RetiredAllocations::OfProcess().Add(std::move(place_));
  }

 private:
  absl::Status Unregister() const {
    return device_.Run([&] {
      return device_.Error(device_.driver().cuMemHostUnregister(memory_),
                           "cuMemHostUnregister");
    });
  }

  const absl::Status ok_;
  const DeviceContext& device_;
  std::byte* const memory_;
  std::unique_ptr<RetiredAllocations::Place> place_;  // Until Retire().
};

// The reason why there is no registration.
class Refusal final : public MappedPages::Pin {
 public:
  explicit Refusal(absl::Status status) : status_(std::move(status)) {}
  const absl::Status& status() const override { return status_; }
  void Retire(std::shared_ptr<MappedPages> /*pages*/) override {}

 private:
  const absl::Status status_;
};

absl::StatusOr<std::unique_ptr<MappedPages::Pin>> Register(
    const DeviceContext& device, const MappedPages& pages) {
  TENON_RETURN_IF_ERROR(CheckDevice(device));
  if (!pages.writable()) TENON_RETURN_IF_ERROR(CheckReadOnly(device));
  TENON_ASSIGN_OR_RETURN(std::unique_ptr<RetiredAllocations::Place> place,
                         RetiredAllocations::OfProcess().Reserve());
  // The driver would do it too, but would not say which limit was hit.
  TENON_RETURN_IF_ERROR(pages.Populate());
  TENON_RETURN_IF_ERROR(device.Run([&] {
    const unsigned flags = kCuMemHostRegisterPortable |
                           (pages.writable() ? 0 : kCuMemHostRegisterReadOnly);
    return device.Error(device.driver().cuMemHostRegister_v2(
                            pages.data(), pages.size_bytes(), flags),
                        "cuMemHostRegister");
  }));
  return std::make_unique<Registration>(device, pages.data(), std::move(place));
}

}  // namespace

absl::StatusOr<const DeviceContext*> CudaPagePinner::Device() const {
  DeviceContexts* devices = devices_;
  if (devices == nullptr) {
    TENON_ASSIGN_OR_RETURN(devices, DeviceContexts::OfProcess());
  }
  CUdevice current = 0;
  if (devices->driver().cuCtxGetDevice(&current) != CUDA_SUCCESS) current = 0;
  return devices->Get(current);
}

absl::Status CudaPagePinner::Check() const {
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const device, Device());
  return CheckDevice(*device);
}

std::unique_ptr<MappedPages::Pin> CudaPagePinner::Make(
    const MappedPages& pages) const {
  const auto pin = [&]() -> absl::StatusOr<std::unique_ptr<MappedPages::Pin>> {
    TENON_ASSIGN_OR_RETURN(const DeviceContext* const device, Device());
    return Register(*device, pages);
  };
  absl::StatusOr<std::unique_ptr<MappedPages::Pin>> made = pin();
  if (made.ok()) return *std::move(made);
  return std::make_unique<Refusal>(absl::Status(
      made.status().code(),
      absl::StrCat("memory of an arena, ", pages.size_bytes(),
                   " bytes, cannot be pinned: ", made.status().message())));
}

}  // namespace tenon::cuda_ipc
