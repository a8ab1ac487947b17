// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// libfake_cuda.so: a CUDA driver for tests, without hardware. It exports the
// functions of DriverTable under libcuda's names, and answers from the FakeCuda
// inside it:
//
//   const std::string path = FakeCudaPath("libfake_cuda.so");
//   FakeCuda& fake = ResetFakeCuda(path);
//   fake.device_count = 0;
//   absl::StatusOr<DriverTable> driver = LoadDriver(path);
//
// It is stricter than a driver: before cuInit most functions fail, ordinals and
// lengths are checked, failed calls leave their outputs unchanged, and the old
// cuDeviceTotalMem that libcuda exports beside cuDeviceTotalMem_v2 returns
// wrong values. libfake_cuda_without_uuid.so lacks cuDeviceGetUuid_v2.
//
// It proves nothing about the behaviour of a real driver.

#ifndef TENON_CUDA_IPC_FAKE_CUDA_H_
#define TENON_CUDA_IPC_FAKE_CUDA_H_

#include <dlfcn.h>
#include <stdlib.h>

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "cuda.h"
#include "tenon/shm/base/check.h"

namespace tenon::cuda_ipc {

struct FakeDevice {
  const char* name;
  size_t total_bytes;
  unsigned char uuid[16];
};

// The library's answers; its functions read them in each call.
struct FakeCuda {
  int version = 12040;
  CUresult init_result = CUDA_SUCCESS;
  bool knows_errors = true;  // Whether it has texts for them.
  int device_count = 2;
  FakeDevice devices[2] = {
      {.name = "Fake One",
       .total_bytes = 80ull << 30,
       .uuid = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc,
                0xba, 0x98, 0x76, 0x54, 0x32, 0x10}},
      {.name = "Fake Two", .total_bytes = 1, .uuid = {0xff}}};

  // This function fails, and only for this device if it takes one.
  const char* failing_call = "";
  int failing_device = 0;
  CUresult failure = CUDA_ERROR_UNKNOWN;

  int init_calls = 0;
  bool is_initialized = false;
};

// The FakeCuda of the library; also the name of the function it exports.
extern "C" FakeCuda* TenonFakeCuda();

// The path at which Bazel provides a library of this package to the running
// test.
inline std::string FakeCudaPath(const std::string& file) {
  const char* const sources = getenv("TEST_SRCDIR");
  const char* const workspace = getenv("TEST_WORKSPACE");
  TENON_CHECK(sources != nullptr && workspace != nullptr,
              "run this test with Bazel");
  return absl::StrCat(sources, "/", workspace, "/cuda_ipc/", file);
}

// Loads the library and resets it to its defaults. It stays loaded.
inline FakeCuda& ResetFakeCuda(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  TENON_CHECK(library != nullptr, "cannot load the fake driver");
  const auto get = reinterpret_cast<decltype(&TenonFakeCuda)>(
      dlsym(library, "TenonFakeCuda"));
  TENON_CHECK(get != nullptr, "not the fake driver");
  return *get() = FakeCuda();
}

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_FAKE_CUDA_H_
