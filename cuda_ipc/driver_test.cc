// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// GetDriver's result on this machine, of either kind; all else with the fake
// driver (fake_cuda.h).

#include "tenon/cuda_ipc/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cuda.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/fake_cuda.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Not;

auto IsNotFound(const std::string& text) {
  return StatusIs(absl::StatusCode::kNotFound, HasSubstr(text));
}
auto IsUnavailable(const std::string& text) {
  return StatusIs(absl::StatusCode::kUnavailable, HasSubstr(text));
}

TEST(GetDriverTest, IsADriverWithDevicesOrSaysWhatIsMissing) {
  // Checked without Tenon: does the library exist?
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const std::string why = library == nullptr ? dlerror() : "";
  const absl::StatusOr<const DriverTable*> driver = GetDriver();
  if (library == nullptr) {
    EXPECT_THAT(driver,
                StatusIs(absl::StatusCode::kNotFound,
                         AllOf(HasSubstr("libcuda.so.1"), HasSubstr(why))));
    return;
  }
  if (!driver.ok()) {
    EXPECT_THAT(driver, IsUnavailable("libcuda.so"));
    return;
  }
  int version = 0, count = 0;
  EXPECT_EQ((*driver)->cuDriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_EQ((*driver)->version, version);
  EXPECT_THAT(version, Ge(kOldestDriverVersion));
  EXPECT_EQ((*driver)->cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_THAT(count, Ge(1));
}

TEST(GetDriverTest, IsTheSameEveryTime) {
  const absl::StatusOr<const DriverTable*> first = GetDriver();
  const absl::StatusOr<const DriverTable*> second = GetDriver();
  EXPECT_EQ(first.status(), second.status());
  if (first.ok()) {
    EXPECT_EQ(*first, *second);
  }
}

TEST(LoadDriverTest, AFileThatIsNotThereIsNamed) {
  EXPECT_THAT(LoadDriver("/nowhere/libcuda.so.1"),
              IsNotFound("dlopen(/nowhere/libcuda.so.1): "));
}

TEST(LoadDriverTest, AFileThatIsNoLibraryIsNamedWithTheLoadersWords) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/libcuda_of_text.so");
  std::ofstream(path) << "this is text, and long enough to be read as a header";
  ASSERT_EQ(dlopen(path.c_str(), RTLD_NOW), nullptr);
  const std::string why = dlerror();
  EXPECT_THAT(LoadDriver(path),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr(path), HasSubstr(why))));
  unlink(path.c_str());
}

TEST(LoadDriverTest, ALibraryThatIsNoDriverIsSaidToLackEverything) {
  EXPECT_THAT(LoadDriver("libc.so.6"),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("libc.so.6"), HasSubstr(" cuInit"),
                             HasSubstr(" cuDeviceTotalMem_v2"))));
}

class FakeDriverTest : public ::testing::Test {
 protected:
  const std::string path_ = FakeCudaPath("libfake_cuda.so");
  FakeCuda& fake_ = ResetFakeCuda(path_);
};

TEST_F(FakeDriverTest, FillsTheTableWithWorkingFunctions) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver, LoadDriver(path_));
  EXPECT_EQ(fake_.init_calls, 1);
  EXPECT_EQ(driver.version, 12040);
  EXPECT_THAT(driver.path, EndsWith("libfake_cuda.so"));

  int version = 0, count = 0;
  CUdevice device = -1;
  char name[32] = {};
  size_t bytes = 0;
  CUuuid uuid = {};
  const char* text = nullptr;
  EXPECT_EQ(driver.cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(driver.cuDriverGetVersion(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, 12040);
  EXPECT_EQ(driver.cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 2);
  EXPECT_EQ(driver.cuDeviceGet(&device, 1), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(driver.cuDeviceGetName(name, sizeof(name), 1), CUDA_SUCCESS);
  EXPECT_STREQ(name, "Fake Two");
  EXPECT_EQ(driver.cuDeviceTotalMem(&bytes, 1), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 1u);
  EXPECT_EQ(driver.cuDeviceGetUuid(&uuid, 1), CUDA_SUCCESS);
  EXPECT_EQ(uuid.bytes[0], '\xff');
  EXPECT_EQ(driver.cuGetErrorName(CUDA_ERROR_NO_DEVICE, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_NO_DEVICE");
  EXPECT_EQ(driver.cuGetErrorString(CUDA_ERROR_NO_DEVICE, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "no device at all");
}

TEST_F(FakeDriverTest, TakesTheFunctionThatCudaHMeansByAName) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver, LoadDriver(path_));
  // All bits set: the old function, of 32 bits, would leave half of them.
  size_t bytes = ~size_t{0};
  EXPECT_EQ(driver.cuDeviceTotalMem(&bytes, 0), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 80ull << 30);
}

TEST_F(FakeDriverTest, AMissingFunctionIsNamed) {
  const std::string path = FakeCudaPath("libfake_cuda_without_uuid.so");
  FakeCuda& fake = ResetFakeCuda(path);
  EXPECT_THAT(LoadDriver(path),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("libfake_cuda_without_uuid.so"),
                             HasSubstr("lacks cuDeviceGetUuid_v2;"),
                             HasSubstr("CUDA 11.4"))));
  EXPECT_EQ(fake.init_calls, 0);
}

TEST_F(FakeDriverTest, AnOldDriverIsRefusedBeforeItIsInitialized) {
  fake_.version = kOldestDriverVersion - 10;
  EXPECT_THAT(LoadDriver(path_),
              IsUnavailable("too old: it supports CUDA 11.3, and 11.4"));
  EXPECT_EQ(fake_.init_calls, 0);
  fake_.version = kOldestDriverVersion;
  EXPECT_THAT(LoadDriver(path_), IsOk());
}

TEST_F(FakeDriverTest, ADriverThatDoesNotKnowItsVersion) {
  fake_.failing_call = "cuDriverGetVersion";
  fake_.failure = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_THAT(LoadDriver(path_),
              IsUnavailable("libfake_cuda.so): out of memory"));
}

TEST_F(FakeDriverTest, TheToolkitsLibraryForLinkingIsNoDriver) {
  fake_.knows_errors = false;
  fake_.failing_call = "cuDriverGetVersion";
  fake_.failure = CUDA_ERROR_STUB_LIBRARY;
  EXPECT_THAT(
      LoadDriver(path_),
      IsUnavailable("[CUresult 34]; this is the toolkit's stub library"));
}

TEST_F(FakeDriverTest, NoDeviceIsUnavailableAndTellsWhatHidesDevices) {
  fake_.init_result = CUDA_ERROR_NO_DEVICE;
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(LoadDriver(path_),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("cuInit("), HasSubstr("libfake_cuda.so"),
                             EndsWith("[CUDA_ERROR_NO_DEVICE]"))));
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  EXPECT_THAT(LoadDriver(path_),
              IsUnavailable("DEVICE]; CUDA_VISIBLE_DEVICES is '7'"));
  fake_.init_result = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
  EXPECT_THAT(LoadDriver(path_),
              StatusIs(absl::StatusCode::kUnavailable,
                       Not(HasSubstr("CUDA_VISIBLE_DEVICES"))));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(FakeDriverTest, ZeroDevicesIsUnavailable) {
  fake_.device_count = 0;
  EXPECT_THAT(LoadDriver(path_), IsUnavailable("has no device"));
}

TEST_F(FakeDriverTest, ADriverThatCannotCountIsUnavailable) {
  fake_.failing_call = "cuDeviceGetCount";
  EXPECT_THAT(LoadDriver(path_), IsUnavailable("cuDeviceGetCount("));
}

TEST_F(FakeDriverTest, ErrorsHaveCallObjectWordsAndName) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver, LoadDriver(path_));
  EXPECT_THAT(CudaError(driver, CUDA_SUCCESS, "cuInit", ""), IsOk());
  EXPECT_THAT(
      CudaError(driver, CUDA_ERROR_INVALID_DEVICE, "cuDeviceGet", "device 9"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "cuDeviceGet(device 9): no such device "
               "[CUDA_ERROR_INVALID_DEVICE]"));
}

TEST_F(FakeDriverTest, ErrorsUnknownToTheDriverHaveTheirNumber) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver, LoadDriver(path_));
  const auto unknown = static_cast<CUresult>(998);
  EXPECT_THAT(CudaError(driver, unknown, "cuInit", ""),
              StatusIs(absl::StatusCode::kInternal,
                       "cuInit(): unknown error [CUresult 998]"));
  fake_.knows_errors = false;
  EXPECT_THAT(CudaError(driver, CUDA_ERROR_OUT_OF_MEMORY, "cuInit", ""),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("[CUresult 2]")));
}

TEST_F(FakeDriverTest, ErrorsHaveTheCodeThatFitsThem) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver, LoadDriver(path_));
  const auto code_of = [&driver](CUresult result) {
    return CudaError(driver, result, "call", "object").code();
  };
  using enum absl::StatusCode;
  EXPECT_EQ(code_of(CUDA_ERROR_INVALID_VALUE), kInvalidArgument);
  EXPECT_EQ(code_of(CUDA_ERROR_OUT_OF_MEMORY), kResourceExhausted);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_INITIALIZED), kFailedPrecondition);
  EXPECT_EQ(code_of(CUDA_ERROR_INVALID_CONTEXT), kFailedPrecondition);
  EXPECT_EQ(code_of(CUDA_ERROR_NO_DEVICE), kUnavailable);
  EXPECT_EQ(code_of(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH), kUnavailable);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_FOUND), kNotFound);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_PERMITTED), kPermissionDenied);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_SUPPORTED), kUnimplemented);
  EXPECT_EQ(code_of(CUDA_ERROR_ILLEGAL_ADDRESS), kInternal);
}

}  // namespace
}  // namespace tenon::cuda_ipc
