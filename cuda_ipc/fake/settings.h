// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Settings: what machine the fake driver pretends to be. See README.md for the
// words.

#ifndef TENON_CUDA_IPC_FAKE_SETTINGS_H_
#define TENON_CUDA_IPC_FAKE_SETTINGS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tenon/cuda_ipc/cuda_api.h"

namespace tenon::cuda_ipc::fake {

struct DeviceSettings {
  std::string name;
  size_t total_bytes = 0;
  std::array<unsigned char, 16> uuid{};
  std::map<int, int> attributes;
};

struct FaultSettings {
  std::string entry;
  uint64_t nth = 0;
  int error = 0;
};

struct Settings {
  int version = 12040;
  int init = CUDA_SUCCESS;
  bool texts = true;      // Whether it has texts for errors.
  bool peers = true;      // Whether devices reach each other's memory.
  bool read_only = true;  // Whether read-only access can be set.
  unsigned delay_us = 0;  // The most that a stream waits before each operation.
  unsigned seed = 1;
  std::string machine = "fake";  // Processes of other machines share nothing.
  std::string leaks;             // File for the report of leaks at exit.
  std::vector<DeviceSettings> devices;  // That this process sees.
  std::vector<FaultSettings> faults;
};

// Ends the process with a message if `text` is malformed: a test that sets
// something else than it means would pass for the wrong reason.
Settings ParseSettings(const std::string& text);

// Of this process: parsed from $TENON_FAKE_CUDA until ResetSettings().
const Settings& CurrentSettings();
void ResetSettings(const std::string& text);

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_SETTINGS_H_
