// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DeviceTest: a test of code that uses a DeviceContext, with a fake driver of
// two devices, or with the machine's (machine_driver_testing.h), which may have
// one.

#ifndef TENON_CUDA_IPC_DEVICE_TESTING_H_
#define TENON_CUDA_IPC_DEVICE_TESTING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/machine_driver_testing.h"
#include "tenon/shm/testing/process_testing.h"

namespace tenon::cuda_ipc {

inline constexpr size_t kPage = size_t{2} << 20;  // The fake's granularity.

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_fake_) {
      const absl::Status found = GetDriver().status();
      if (!found.ok()) GTEST_SKIP() << found;
    }
    Start("");
  }

  // A test that needs the fake skips itself without it.
  bool has_fake() const { return has_fake_; }

  // Begins again, with contexts of devices 0 and 1, the second one null if
  // there is none. Resets the fake, which alone has settings.
  void Start(const std::string& settings) {
    fake_.Reset(settings);
    absl::StatusOr<DriverTable> driver = Load();
    ASSERT_TRUE(driver.ok()) << driver.status();
    d_ = *driver;
    absl::StatusOr<std::unique_ptr<DeviceContexts>> devices =
        DeviceContexts::Create(d_);
    ASSERT_TRUE(devices.ok()) << devices.status();
    devices_ = *std::move(devices);
    gpu_ = Get(0);
    other_ = devices_->devices().size() < 2 ? nullptr : Get(1);
    // Each is made once, and kept until the process ends.
    for (const DeviceContext* device : {gpu_, other_}) {
      if (device == nullptr) continue;
      ASSERT_TRUE(device->Run([&] { return device->CopyStream(); }).ok());
    }
  }

  const DeviceContext* Get(int ordinal) {
    absl::StatusOr<const DeviceContext*> device = devices_->Get(ordinal);
    EXPECT_TRUE(device.ok()) << device.status();
    return device.ok() ? *device : nullptr;
  }

  // What this process holds: things of the driver, descriptors, the context of
  // this thread, bytes of the devices.
  std::string Held() const {
    std::string held;
    for (const std::string& leak : fake_.Leaks()) {
      absl::StrAppend(&held, leak, "\n");
    }
    CUcontext context = nullptr;
    d_.cuCtxGetCurrent(&context);
    return absl::StrCat(held, CountOpenFds(), " descriptors, ",
                        context == nullptr ? "no" : "a", " context, ",
                        fake_.HeldBytes(0) + fake_.HeldBytes(1), " bytes");
  }

  // `body`, once for each documented error of each call that it makes, with
  // that call failing: it returns an error, unless `tolerates(entry, error)`,
  // and what it returns besides is gone; nothing is held then; and it works the
  // next time. `entries` are those that it must call.
  void FailEachCall(
      const std::set<std::string>& entries,
      const std::function<absl::Status()>& body,
      const std::function<bool(const std::string&, CUresult)>& tolerates =
          [](const std::string&, CUresult) { return false; }) {
    const std::string before = Held();
    std::map<std::string, uint64_t> calls;
    for (const std::string& entry : entries) calls[entry] = fake_.Calls(entry);
    const absl::Status clean = body();
    ASSERT_TRUE(clean.ok()) << clean;
    for (const std::string& entry : entries) {
      calls[entry] = fake_.Calls(entry) - calls[entry];
    }
    for (const auto& [entry, count] : calls) {
      EXPECT_GT(count, 0u) << entry;
      for (const CUresult error : fake_.DocumentedErrors(entry)) {
        for (uint64_t nth = 1; nth <= count; ++nth) {
          SCOPED_TRACE(absl::StrCat(entry, " ", nth, " fails with ", error));
          fake_.Fail(entry, nth, error);
          const absl::Status result = body();
          fake_.StopFailing(entry);
          EXPECT_TRUE(!result.ok() || tolerates(entry, error));
          ASSERT_EQ(Held(), before);
          ASSERT_TRUE(body().ok());
        }
      }
    }
    EXPECT_EQ(Held(), before);
  }

  absl::StatusOr<DriverTable> Load() const {
    if (has_fake_) return LoadDriver(fake_.path());
    absl::StatusOr<const DriverTable*> driver = GetDriver();
    if (!driver.ok()) return driver.status();
    return **driver;
  }

  const bool has_fake_ = !UsesMachineDriver();
  FakeDriver fake_;
  DriverTable d_ = {};
  std::unique_ptr<DeviceContexts> devices_;
  const DeviceContext* gpu_ = nullptr;
  const DeviceContext* other_ = nullptr;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_TESTING_H_
