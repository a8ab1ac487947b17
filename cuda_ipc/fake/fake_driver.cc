// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/fake_driver.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/check.h"

namespace tenon::cuda_ipc {
namespace {

// Beside a test, or beside another program that Bazel has built.
std::string PathOf(absl::string_view file) {
  const std::string below = absl::StrCat("cuda_ipc/fake/", file);
  const char* const sources = getenv("TEST_SRCDIR");
  const char* const workspace = getenv("TEST_WORKSPACE");
  if (sources != nullptr && workspace != nullptr) {
    return absl::StrCat(sources, "/", workspace, "/", below);
  }
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (auto folder = program.parent_path(); folder != folder.root_path();
       folder = folder.parent_path()) {
    if (std::filesystem::exists(folder / below, error)) return folder / below;
  }
  return below;
}

}  // namespace

FakeDriver::FakeDriver(absl::string_view settings, absl::string_view file)
    : path_(PathOf(file)) {
  void* const library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  TENON_CHECK(library != nullptr,
              absl::StrCat("cannot load the fake driver: ", dlerror()));
  const auto control = reinterpret_cast<decltype(&fake::TenonFakeCudaControl)>(
      dlsym(library, "TenonFakeCudaControl"));
  TENON_CHECK(control != nullptr, "not the fake driver");
  control_ = control();
  Reset(settings);
}

void FakeDriver::SetEnvironment() const {
  setenv("TENON_LIBCUDA", path_.c_str(), 1);
  setenv("TENON_FAKE_CUDA", settings_.c_str(), 1);
}

void FakeDriver::Reset(absl::string_view settings) {
  settings_ = absl::StrCat("machine=test", getpid(), " ", settings);
  control_->reset(settings_.c_str());
}

uint64_t FakeDriver::Calls(const std::string& entry) const {
  return control_->calls(entry.c_str());
}

uint64_t FakeDriver::AllCalls() const { return control_->calls(nullptr); }

void FakeDriver::Fail(const std::string& entry, uint64_t nth,
                      CUresult error) const {
  control_->fail(entry.c_str(), nth, error);
}

void FakeDriver::StopFailing(const std::string& entry) const {
  control_->fail(entry.c_str(), 0, CUDA_SUCCESS);
}

std::vector<CUresult> FakeDriver::DocumentedErrors(
    const std::string& entry) const {
  std::array<int, 32> errors;
  const size_t count =
      control_->errors(entry.c_str(), errors.data(), errors.size());
  TENON_CHECK(count <= errors.size(), "more errors than expected");
  std::vector<CUresult> results;
  for (size_t i = 0; i < count; ++i) {
    results.push_back(static_cast<CUresult>(errors[i]));
  }
  return results;
}

std::vector<std::string> FakeDriver::Leaks() const {
  std::string text(1 << 16, '\0');
  control_->leaks(text.data(), text.size());
  return absl::StrSplit(text.c_str(), '\n', absl::SkipEmpty());
}

uint64_t FakeDriver::HeldBytes(int device) const {
  return control_->held_bytes(device);
}

}  // namespace tenon::cuda_ipc
