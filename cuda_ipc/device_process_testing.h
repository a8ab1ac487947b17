// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DeviceProcessTest: a test of several processes with a CUDA driver. The same
// test runs with the fake driver, and with the machine's in a target that sets
// $TENON_TEST_DRIVER to "machine". The test itself never initializes CUDA, and
// has one thread, so that it may fork: all sides are its children.

#ifndef TENON_CUDA_IPC_DEVICE_PROCESS_TESTING_H_
#define TENON_CUDA_IPC_DEVICE_PROCESS_TESTING_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/driver.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
#include "tenon/cuda_ipc/machine_driver_testing.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/forked_child.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {

inline constexpr size_t kPage = size_t{2} << 20;  // The fake's granularity.

// Bounds waits that should be short.
inline Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

class DeviceProcessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    machine_ = absl::StrCat("machine=pool", getpid());
    has_fake_ = !UsesMachineDriver();
    if (has_fake_) return;
    const std::string problem = MachineDriverProblem();
    if (!problem.empty()) GTEST_SKIP() << problem;
  }

  void TearDown() override {
    if (!has_fake_ || IsSkipped()) return;
    // With all processes gone, nothing is held by any.
    fake_.Reset(machine_);
    EXPECT_TRUE(Becomes(
        [this] { return fake_.HeldBytes(0) == 0 && fake_.HeldBytes(1) == 0; }));
  }

  // Runs `body` in a child that has a driver.
  ForkedChild Run(const std::string& name, const std::function<void()>& body,
                  const std::string& settings = "") {
    absl::StatusOr<ForkedChild> child = ForkedChild::Fork(
        {.name = name, .watchdog = absl::Seconds(100)},
        [this, &body, &settings](const Reporter&) {
          if (has_fake_) {
            fake_.Reset(absl::StrCat(machine_, " ", settings));
            fake_.SetEnvironment();
          }
          ASSERT_THAT(GetDriver(), IsOk());
          body();
        });
    EXPECT_THAT(child, IsOk());
    return *std::move(child);
  }

  void RunAlone(const std::function<void()>& body,
                const std::string& settings = "") {
    EXPECT_TRUE(Run("process", body, settings).EndsWell());
  }

  bool has_fake() const { return has_fake_; }

  // ---- In a child ----

  // Calls of the driver; 0 without the fake, which counts them.
  uint64_t Calls() const { return has_fake_ ? fake_.AllCalls() : 0; }

  // A tensor of the CPU with first, first + 1, ...
  static Tensor Numbers(int64_t count, int64_t first) {
    const Tensor tensor = Tensor::Create(kDtypeOf<int64_t>, {count}).value();
    const auto data = tensor.data<int64_t>().value();
    for (int64_t i = 0; i < count; ++i) data[i] = first + i;
    return tensor;
  }
  // Whether a tensor of a device has these.
  static ::testing::AssertionResult HasNumbers(const Tensor& tensor,
                                               int64_t first) {
    const absl::StatusOr<Tensor> here = tensor.ToCpu();
    if (!here.ok()) return ::testing::AssertionFailure() << here.status();
    const absl::StatusOr<Tensor> dense = here->Contiguous();
    if (!dense.ok()) return ::testing::AssertionFailure() << dense.status();
    const auto data = dense->data<const int64_t>();
    if (!data.ok()) return ::testing::AssertionFailure() << data.status();
    for (size_t i = 0; i < data->size(); ++i) {
      if ((*data)[i] != first + static_cast<int64_t>(i)) {
        return ::testing::AssertionFailure()
               << "element " << i << " is " << (*data)[i] << ", not "
               << first + static_cast<int64_t>(i);
      }
    }
    return ::testing::AssertionSuccess();
  }

  FakeDriver fake_;
  std::string machine_;

 private:
  bool has_fake_ = true;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_DEVICE_PROCESS_TESTING_H_
