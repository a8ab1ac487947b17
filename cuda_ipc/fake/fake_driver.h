// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// FakeDriver: the fake driver in a test.
//
//   #include "tenon/cuda_ipc/driver.h"
//
//   FakeDriver fake("devices=1 delay_us=100");
//   absl::StatusOr<DriverTable> driver = LoadDriver(fake.path());
//   fake.Fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY);
//
// A child that is started by exec finds it by the environment of
// SetEnvironment(): GetDriver() loads the library of $TENON_LIBCUDA, and that
// has the settings of $TENON_FAKE_CUDA.

#ifndef TENON_CUDA_IPC_FAKE_FAKE_DRIVER_H_
#define TENON_CUDA_IPC_FAKE_FAKE_DRIVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/fake/control.h"

namespace tenon::cuda_ipc {

// Ownership: the library stays loaded; all objects of a process share its
//   state.
// Threads: any, but the constructor while no thread calls the driver.
// Processes: each has its own copy. A forked child of a process that has called
//   cuInit has no driver.
// Failure: ends the process if the library cannot be loaded.
class FakeDriver {
 public:
  // Loads the library, in a test or in another program that Bazel has built,
  // and resets it. `settings` are the words of README.md, in addition to a
  // machine of this process's own; "machine=" joins another.
  explicit FakeDriver(absl::string_view settings = "",
                      absl::string_view file = "libcuda.so.1");

  const std::string& path() const { return path_; }
  // As given, with the machine.
  const std::string& settings() const { return settings_; }

  // For GetDriver() in this process and in children that it starts.
  void SetEnvironment() const;

  void Reset(absl::string_view settings);
  uint64_t Calls(const std::string& entry) const;
  uint64_t AllCalls() const;
  // The nth call from now on; each call if nth is 0.
  void Fail(const std::string& entry, uint64_t nth, CUresult error) const;
  void StopFailing(const std::string& entry) const;
  std::vector<CUresult> DocumentedErrors(const std::string& entry) const;
  // One for each thing that this process has not given back.
  std::vector<std::string> Leaks() const;
  uint64_t HeldBytes(int device) const;

 private:
  std::string path_;
  std::string settings_;
  const fake::Control* control_;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_FAKE_FAKE_DRIVER_H_
