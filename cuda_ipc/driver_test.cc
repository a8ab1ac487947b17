// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// GetDriver's result on this machine, of either kind; all else with the fake
// driver.

#include "tenon/cuda_ipc/driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/fake/fake_driver.h"
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
auto IsTooOld(const std::string& text) {
  return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(text));
}
auto IsInternal(const std::string& text) {
  return StatusIs(absl::StatusCode::kInternal, HasSubstr(text));
}

TEST(GetDriverTest, IsADriverWithDevicesOrSaysWhatIsMissing) {
  // Checked without Tenon: does the library exist?
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const std::string why = library == nullptr ? dlerror() : "";
  const bool is_in_container =
      access("/usr/local/nvidia/lib64/libcuda.so.1", R_OK) == 0;
  const absl::StatusOr<const DriverTable*> driver = GetDriver();
  if (library == nullptr && !is_in_container) {
    EXPECT_THAT(driver,
                StatusIs(absl::StatusCode::kNotFound,
                         AllOf(HasSubstr("libcuda.so.1"), HasSubstr(why))));
    return;
  }
  if (!driver.ok()) {
    EXPECT_THAT(driver.status().message(), HasSubstr("libcuda.so"));
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

// GetDriver() loads once for a process, so in a new one: this binary again.
TEST(GetDriverTest, LoadsTheLibraryOfTheEnvironment) {
  if (getenv("TENON_LIBCUDA") != nullptr) {
    TENON_ASSERT_OK_AND_ASSIGN(const DriverTable* const driver, GetDriver());
    EXPECT_EQ(driver->version, 12060);
    return;
  }
  const FakeDriver fake("version=12060");
  fake.SetEnvironment();
  // Bazel's files are those of this process.
  const int status = std::system(
      "unset XML_OUTPUT_FILE TEST_PREMATURE_EXIT_FILE; exec \"$(readlink "
      "/proc/$PPID/exe)\" "
      "--gtest_filter=GetDriverTest.LoadsTheLibraryOfTheEnvironment");
  unsetenv("TENON_LIBCUDA");
  unsetenv("TENON_FAKE_CUDA");
  EXPECT_EQ(status, 0);
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
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("libc.so.6"), HasSubstr(" cuInit"),
                             HasSubstr(" cuDeviceTotalMem_v2"))));
}

class LoadFakeDriverTest : public ::testing::Test {
 protected:
  FakeDriver fake_;
};

TEST_F(LoadFakeDriverTest, FillsTheTableWithTheFunctionsOfItsNames) {
  fake_.Reset("devices=3 version=12050");
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver,
                             LoadDriver(fake_.path()));
  EXPECT_EQ(fake_.Calls("cuInit"), 1);
  EXPECT_EQ(driver.version, 12050);
  EXPECT_THAT(driver.path, EndsWith("fake/libcuda.so.1"));
  // Every function is in the member of its name: its first call is counted.
  uint64_t calls = fake_.AllCalls();
#define TENON_EXPECT_SYMBOL(symbol, parameters)                      \
  EXPECT_EQ(reinterpret_cast<void*>(driver.symbol),                  \
            dlsym(dlopen(fake_.path().c_str(), RTLD_NOW), #symbol)); \
  EXPECT_NE(driver.symbol, nullptr) << #symbol;
#define TENON_EXPECT_OPTIONAL(feature, symbol, parameters) \
  if (DriverFeature::feature != DriverFeature::kKernels) { \
    TENON_EXPECT_SYMBOL(symbol, parameters)                \
  }
  TENON_CUDA_REQUIRED_FUNCTIONS(TENON_EXPECT_SYMBOL)
  TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_EXPECT_OPTIONAL)
  int count = 0;
  EXPECT_EQ(driver.cuDeviceGetCount(&count), CUDA_SUCCESS);
  EXPECT_EQ(count, 3);
  EXPECT_EQ(fake_.AllCalls(), ++calls);
}

TEST_F(LoadFakeDriverTest, TakesTheVersionedFunctionNotTheRetiredOne) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver,
                             LoadDriver(fake_.path()));
  void* const library = dlopen(fake_.path().c_str(), RTLD_NOW);
  ASSERT_NE(dlsym(library, "cuDeviceTotalMem"), nullptr);
  size_t bytes = 0;
  EXPECT_EQ(driver.cuDeviceTotalMem_v2(&bytes, 0), CUDA_SUCCESS);
  EXPECT_EQ(bytes, size_t{80} << 30);
}

TEST_F(LoadFakeDriverTest, AMissingRequiredFunctionIsTooOldAndNamed) {
  FakeDriver fake("", "libcuda_too_old.so");
  EXPECT_THAT(LoadDriver(fake.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("libcuda_too_old.so"),
                             HasSubstr("lacks cuDeviceGetUuid_v2;"),
                             HasSubstr("CUDA 11.4"))));
  EXPECT_EQ(fake.Calls("cuInit"), 0);
}

TEST_F(LoadFakeDriverTest, AMissingOptionalFunctionSwitchesItsFeatureOff) {
  FakeDriver fake("version=11060", "libcuda_without_features.so");
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver, LoadDriver(fake.path()));
  EXPECT_THAT(
      CheckFeature(driver, DriverFeature::kVirtualMemory),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("(CUDA 11.6) is too old for virtual memory"),
                     EndsWith("it lacks cuMemMap cuMemSetAccess"))));
  EXPECT_THAT(CheckFeature(driver, DriverFeature::kStreamMemoryOps),
              IsTooOld("it lacks cuStreamWaitValue32_v2"));
  EXPECT_THAT(CheckFeature(driver, DriverFeature::kIpcEvents),
              IsTooOld("it lacks cuIpcOpenEventHandle"));
  EXPECT_THAT(CheckFeature(driver, DriverFeature::kLegacyIpc), IsOk());
  EXPECT_THAT(CheckFeature(driver, DriverFeature::kHostRegister), IsOk());
  // Also those that the library has.
  EXPECT_EQ(driver.cuMemCreate, nullptr);
  EXPECT_EQ(driver.cuStreamWriteValue32_v2, nullptr);
  EXPECT_NE(driver.cuIpcOpenMemHandle_v2, nullptr);
}

TEST_F(LoadFakeDriverTest, TheFakeHasNoKernels) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver,
                             LoadDriver(fake_.path()));
  EXPECT_THAT(CheckFeature(driver, DriverFeature::kKernels),
              IsTooOld("lacks cuModuleLoadData cuModuleUnload"));
  EXPECT_EQ(driver.cuLaunchKernel, nullptr);
}

TEST_F(LoadFakeDriverTest, AnOldDriverIsRefusedBeforeItIsInitialized) {
  fake_.Reset("version=11030");
  EXPECT_THAT(LoadDriver(fake_.path()),
              IsTooOld("too old: it supports CUDA 11.3, and 11.4"));
  EXPECT_EQ(fake_.Calls("cuInit"), 0);
  fake_.Reset("version=11040");
  EXPECT_THAT(LoadDriver(fake_.path()), IsOk());
}

TEST_F(LoadFakeDriverTest, ADriverThatDoesNotKnowItsVersion) {
  fake_.Fail("cuDriverGetVersion", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(LoadDriver(fake_.path()),
              IsInternal("libcuda.so.1): out of memory"));
}

TEST_F(LoadFakeDriverTest, TheToolkitsLibraryForLinkingIsNoDriver) {
  fake_.Reset("texts=0");
  fake_.Fail("cuDriverGetVersion", 1, CUDA_ERROR_STUB_LIBRARY);
  EXPECT_THAT(LoadDriver(fake_.path()),
              IsNotFound("[CUresult 34]; this is the toolkit's stub library"));
}

TEST_F(LoadFakeDriverTest, NoDeviceIsUnavailableAndTellsWhatHidesDevices) {
  fake_.Reset("init=100");
  unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(LoadDriver(fake_.path()),
              StatusIs(absl::StatusCode::kUnavailable,
                       AllOf(HasSubstr("cuInit("), HasSubstr("libcuda.so.1"),
                             EndsWith("[CUDA_ERROR_NO_DEVICE]"))));
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  EXPECT_THAT(LoadDriver(fake_.path()),
              IsUnavailable("DEVICE]; CUDA_VISIBLE_DEVICES is '7'"));
  fake_.Reset("init=803");
  EXPECT_THAT(LoadDriver(fake_.path()),
              StatusIs(absl::StatusCode::kInternal,
                       Not(HasSubstr("CUDA_VISIBLE_DEVICES"))));
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST_F(LoadFakeDriverTest, ZeroDevicesIsUnavailable) {
  fake_.Reset("devices=0");
  EXPECT_THAT(LoadDriver(fake_.path()), IsUnavailable("has no device"));
}

TEST_F(LoadFakeDriverTest, ADriverThatCannotCountIsUnusable) {
  fake_.Fail("cuDeviceGetCount", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_THAT(LoadDriver(fake_.path()), IsInternal("cuDeviceGetCount("));
}

TEST_F(LoadFakeDriverTest, EveryFailureOfLoadingIsAnError) {
  for (const std::string entry :
       {"cuInit", "cuDriverGetVersion", "cuDeviceGetCount"}) {
    for (const CUresult error : fake_.DocumentedErrors(entry)) {
      fake_.Fail(entry, 1, error);
      EXPECT_THAT(LoadDriver(fake_.path()), IsInternal(entry))
          << entry << ": " << error;
    }
  }
  EXPECT_THAT(LoadDriver(fake_.path()), IsOk());
}

TEST_F(LoadFakeDriverTest, ErrorsHaveCallObjectWordsAndName) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver,
                             LoadDriver(fake_.path()));
  EXPECT_THAT(CudaError(driver, CUDA_SUCCESS, "cuInit", ""), IsOk());
  EXPECT_THAT(
      CudaError(driver, CUDA_ERROR_INVALID_DEVICE, "cuDeviceGet", "device 9"),
      StatusIs(absl::StatusCode::kInvalidArgument,
               "cuDeviceGet(device 9): invalid device ordinal "
               "[CUDA_ERROR_INVALID_DEVICE]"));
}

TEST_F(LoadFakeDriverTest, ErrorsUnknownToTheDriverHaveTheirNumber) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver,
                             LoadDriver(fake_.path()));
  const auto unknown = static_cast<CUresult>(998);
  EXPECT_THAT(CudaError(driver, unknown, "cuInit", ""),
              StatusIs(absl::StatusCode::kInternal,
                       "cuInit(): unknown error [CUresult 998]"));
  fake_.Reset("texts=0");
  EXPECT_THAT(CudaError(driver, CUDA_ERROR_OUT_OF_MEMORY, "cuInit", ""),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("[CUresult 2]")));
}

TEST_F(LoadFakeDriverTest, ErrorsHaveTheCodeThatFitsThem) {
  TENON_ASSERT_OK_AND_ASSIGN(const DriverTable driver,
                             LoadDriver(fake_.path()));
  const auto code_of = [&driver](CUresult result) {
    return CudaError(driver, result, "call", "object").code();
  };
  using enum absl::StatusCode;
  EXPECT_EQ(code_of(CUDA_ERROR_INVALID_VALUE), kInvalidArgument);
  EXPECT_EQ(code_of(CUDA_ERROR_OUT_OF_MEMORY), kResourceExhausted);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_INITIALIZED), kFailedPrecondition);
  EXPECT_EQ(code_of(CUDA_ERROR_INVALID_CONTEXT), kFailedPrecondition);
  EXPECT_EQ(code_of(CUDA_ERROR_NO_DEVICE), kUnavailable);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_READY), kUnavailable);
  EXPECT_EQ(code_of(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH), kUnavailable);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_FOUND), kNotFound);
  EXPECT_EQ(code_of(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED), kNotFound);
  EXPECT_EQ(code_of(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED), kAlreadyExists);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_PERMITTED), kPermissionDenied);
  EXPECT_EQ(code_of(CUDA_ERROR_NOT_SUPPORTED), kUnimplemented);
  EXPECT_EQ(code_of(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED), kUnimplemented);
  EXPECT_EQ(code_of(CUDA_ERROR_ILLEGAL_ADDRESS), kInternal);
}

}  // namespace
}  // namespace tenon::cuda_ipc
