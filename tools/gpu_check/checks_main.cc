// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Runs one check of a CUDA driver, or lists all.
//
//   checks --list      # a line of JSON for each: id, group, text
//   checks ID          # a line of JSON: id, result, detail, value
//
// `--second ROLE` is the other process of a check: second.h.
//
// Exits with 0 if the check ran, whatever its result; with 2 where there is no
// driver or no device. TENON_LIBCUDA names another driver, such as the fake
// one, which TENON_FAKE_CUDA configures.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/tools/gpu_check/check.h"
#include "tenon/tools/gpu_check/second.h"

namespace tenon::gpu_check {
namespace {

std::string Quoted(absl::string_view text) {
  return absl::StrCat(
      "\"",
      absl::StrReplaceAll(
          text, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", " "}, {"\t", " "}}),
      "\"");
}

struct Group {
  const char* name;
  std::vector<Check> checks;
};

std::vector<Group> Groups() {
  return {{"check", Others()},
          {"check", Processes()},
          {"assumption", Assumptions()},
          {"assumption", AssumptionsOfProcesses()},
          {"figure", Figures()}};
}

int List() {
  for (const Group& group : Groups()) {
    for (const Check& check : group.checks) {
      printf("{\"id\": %s, \"group\": \"%s\", \"text\": %s}\n",
             Quoted(check.id).c_str(), group.name, Quoted(check.text).c_str());
    }
  }
  return 0;
}

absl::StatusOr<const cuda_ipc::DeviceContext*> FirstDevice() {
  absl::StatusOr<cuda_ipc::DeviceContexts*> devices =
      cuda_ipc::DeviceContexts::OfProcess();
  if (!devices.ok()) return devices.status();
  return (*devices)->Get(0);
}

Outcome RunOn(const cuda_ipc::DeviceContext& device,
              const std::function<Outcome(const Gpu&)>& run) {
  const Gpu gpu{device.driver(), device, getenv("TENON_FAKE_CUDA") != nullptr};
  Outcome outcome;
  // After a fault of the device the context cannot be popped either.
  const absl::Status ran = device.Run([&] {
    try {
      outcome = run(gpu);
    } catch (const std::exception& e) {
      outcome = {"fail", e.what()};
    }
    return absl::OkStatus();
  });
  return outcome.result.empty() ? Outcome{"fail", ran.ToString()} : outcome;
}

// Ends with 0 if it has played its role to the end.
int RunSecond(absl::string_view role, bool has_memory) {
  const absl::StatusOr<const cuda_ipc::DeviceContext*> device = FirstDevice();
  if (!device.ok()) return 2;
  const Wire first{UniqueFd(kSecondWire)};
  const Outcome outcome = RunOn(**device, [&](const Gpu& gpu) {
    PlaySecond(role, gpu, first, has_memory ? kSecondMemory : -1);
    return PassIf(true);
  });
  if (outcome.result == "pass") return 0;
  fprintf(stderr, "%s\n", outcome.detail.c_str());
  return 1;
}

int RunById(absl::string_view id) {
  const absl::StatusOr<const cuda_ipc::DeviceContext*> device = FirstDevice();
  if (!device.ok()) {
    fprintf(stderr, "%s\n", device.status().ToString().c_str());
    return 2;
  }
  for (const Group& group : Groups()) {
    for (const Check& check : group.checks) {
      if (check.id != id) continue;
      const Outcome outcome = RunOn(**device, check.run);
      printf(
          "{\"id\": %s, \"result\": \"%s\", \"detail\": %s, \"value\": %g}\n",
          Quoted(check.id).c_str(), outcome.result.c_str(),
          Quoted(outcome.detail).c_str(), outcome.value);
      fflush(stdout);
      // Without destructors of a driver whose context may be lost.
      _Exit(0);
    }
  }
  fprintf(stderr, "no check '%.*s'\n", static_cast<int>(id.size()), id.data());
  return 1;
}

}  // namespace
}  // namespace tenon::gpu_check

int main(int argc, char** argv) {
  if (argc > 2 && strcmp(argv[1], "--second") == 0) {
    return tenon::gpu_check::RunSecond(argv[2], argc > 3);
  }
  if (argc != 2) {
    fprintf(stderr, "usage: checks --list | checks ID\n");
    return 1;
  }
  if (strcmp(argv[1], "--list") == 0) return tenon::gpu_check::List();
  return tenon::gpu_check::RunById(argv[1]);
}
