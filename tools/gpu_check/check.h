// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A check of a CUDA driver: what Tenon or its fake driver assumes of it, or a
// figure. Each runs in a process of its own, since a fault of the device ends
// all work of its process.

#ifndef TENON_TOOLS_GPU_CHECK_CHECK_H_
#define TENON_TOOLS_GPU_CHECK_CHECK_H_

#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/driver.h"

namespace tenon::gpu_check {

struct Outcome {
  // "pass" or "fail" of a check, "seen" or "wrong" of an assumption of the fake
  // driver, "figure", or "not run".
  std::string result;
  // What was seen; the reason of "not run"; the unit of a figure.
  std::string detail;
  double value = 0;  // Of a figure.
};

inline Outcome NotRun(absl::string_view reason) {
  return {"not run", std::string(reason)};
}
inline Outcome Figure(double value, absl::string_view unit) {
  return {"figure", std::string(unit), value};
}
inline Outcome PassIf(bool passed, absl::string_view detail = "") {
  return {passed ? "pass" : "fail", std::string(detail)};
}
// Of a call whose result the fake driver assumes.
inline Outcome SeenIf(bool as_assumed, absl::string_view detail = "") {
  return {as_assumed ? "seen" : "wrong", std::string(detail)};
}
inline Outcome SeenIfReturns(cuda_ipc::CUresult got,
                             cuda_ipc::CUresult assumed) {
  return SeenIf(got == assumed,
                absl::StrCat("CUresult ", static_cast<int>(got), ", assumed ",
                             static_cast<int>(assumed)));
}

// The first device, whose primary context is current in this thread.
struct Gpu {
  const cuda_ipc::DriverTable& d;
  const cuda_ipc::DeviceContext& device;
  bool is_fake;
};

struct Check {
  std::string id;
  // Of an assumption: the row of the table in cuda_ipc/fake/README.md.
  std::string text;
  std::function<Outcome(const Gpu&)> run;
};

std::vector<Check> Assumptions();
std::vector<Check> AssumptionsOfProcesses();
std::vector<Check> Figures();
std::vector<Check> Others();
std::vector<Check> Processes();

// What a call that has to succeed for a check to make sense returned.
class Broken : public std::exception {
 public:
  explicit Broken(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

inline void Need(cuda_ipc::CUresult result, const char* call) {
  if (result == cuda_ipc::CUDA_SUCCESS) return;
  throw Broken(absl::StrCat(call, " returned ", static_cast<int>(result)));
}
inline void Need(const absl::Status& status) {
  if (!status.ok()) throw Broken(status.ToString());
}

}  // namespace tenon::gpu_check

#endif  // TENON_TOOLS_GPU_CHECK_CHECK_H_
