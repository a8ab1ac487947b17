// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A program that links pools and tensors of devices, and is started on a
// machine with neither a driver nor a toolkit. It does not link the fake
// driver. A machine that has a driver is tested as one without: $TENON_LIBCUDA
// names a file that does not exist.

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/fork_hazard.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kMissing[] = "/nonexistent/libcuda.so.1";

Deadline Soon() { return Deadline::After(absl::Seconds(60)); }

// Files of the program and of all libraries that it has loaded.
std::vector<std::string> LoadedFiles() {
  std::vector<std::string> files;
  dl_iterate_phdr(
      [](dl_phdr_info* file, size_t, void* all) {
        static_cast<std::vector<std::string>*>(all)->push_back(file->dlpi_name);
        return 0;
      },
      &files);
  return files;
}

// The libraries that a program's own dynamic section needs, as `readelf -d`
// prints them.
std::vector<std::string> NeededByProgram() {
  std::vector<std::string> needed;
  const auto* const map =
      static_cast<const link_map*>(dlopen(nullptr, RTLD_LAZY));
  if (map == nullptr) return needed;
  const char* strings = nullptr;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) {
      strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    }
  }
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_NEEDED) {
      needed.emplace_back(strings + entry->d_un.d_val);
    }
  }
  return needed;
}

class NoDriverTest : public ::testing::Test {
 protected:
  // GetDriver() loads once in each process: a child has an attempt of its own.
  static void InProcessWithoutDriver(const std::function<void()>& body) {
    EXPECT_TRUE(PassesInChild([&] {
      setenv("TENON_LIBCUDA", kMissing, 1);
      body();
    }));
  }
};

TEST_F(NoDriverTest, NoLibraryOfCudaIsNeededOrLoaded) {
  const std::vector<std::string> needed = NeededByProgram();
  // What is looked at is what the program needs.
  EXPECT_THAT(needed, Contains(HasSubstr("libc.so")));
  EXPECT_THAT(needed, Not(Contains(HasSubstr("libcuda"))));
  EXPECT_THAT(needed, Not(Contains(HasSubstr("libnv"))));
  // Neither is one by a library that is needed.
  EXPECT_THAT(LoadedFiles(), Contains(HasSubstr("libc.so")));
  EXPECT_THAT(LoadedFiles(), Not(Contains(HasSubstr("libcuda"))));
  EXPECT_THAT(LoadedFiles(), Not(Contains(HasSubstr("libnv"))));
}

TEST_F(NoDriverTest, TensorsOfTheCpuWorkAndDevicesAreMissing) {
  InProcessWithoutDriver([] {
    const auto is_missing =
        StatusIs(absl::StatusCode::kNotFound,
                 AllOf(HasSubstr("no CUDA driver"), HasSubstr(kMissing),
                       HasSubstr("NVIDIA's driver brings this library")));
    EXPECT_THAT(DevicePool::Create(0), is_missing);
    EXPECT_THAT(DevicePool::Create(std::array<uint8_t, 16>{1}), is_missing);
    EXPECT_THAT(FindCudaDevice({1}), is_missing);

    const auto in = TensorQueue::Create();
    ASSERT_THAT(in, IsOk());
    const auto out = TensorQueue::Open((*in)->Share().value());
    ASSERT_THAT(out, IsOk());
    const Tensor tensor =
        (*in)->CreateTensor(kDtypeOf<int64_t>, {3}, Soon()).value();
    tensor.data<int64_t>().value()[2] = 7;
    EXPECT_THAT(tensor.To({kDLCUDA, 0}), is_missing);
    ASSERT_THAT((*in)->Put(tensor, Soon()), IsOk());
    const absl::StatusOr<Tensor> got = (*out)->GetTensor(Soon());
    ASSERT_THAT(got, IsOk());
    EXPECT_EQ(got->data<const int64_t>().value()[2], 7);
    EXPECT_THAT(got->ToCpu(), IsOk());
    EXPECT_THAT(got->Clone(), IsOk());
    EXPECT_THAT(TrimDeviceTensors(), IsOkAndHolds(0));
  });
}

TEST_F(NoDriverTest, ChildrenMayBeForkedAfterTheAttempt) {
  InProcessWithoutDriver([] {
    EXPECT_THAT(DevicePool::Create(0), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(CheckNoForkHazard(), IsOk());
    EXPECT_TRUE(PassesInChild([] {
      EXPECT_THAT(DevicePool::Create(0), StatusIs(absl::StatusCode::kNotFound));
      EXPECT_THAT(Tensor::Create(kDtypeOf<float>, {3}), IsOk());
    }));
  });
}

// As a user starts the program: nothing is set.
TEST_F(NoDriverTest, ThisMachinesDriverIsMissingBySearch) {
  if (dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) != nullptr ||
      access("/usr/local/nvidia/lib64/libcuda.so.1", F_OK) == 0) {
    GTEST_SKIP() << "this machine has a CUDA driver";
  }
  EXPECT_TRUE(PassesInChild([] {
    unsetenv("TENON_LIBCUDA");
    EXPECT_THAT(DevicePool::Create(0),
                StatusIs(absl::StatusCode::kNotFound,
                         HasSubstr("dlopen(libcuda.so.1)")));
  }));
}

}  // namespace
}  // namespace tenon::cuda_ipc
