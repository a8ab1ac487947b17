// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/settings.h"

#include <stdio.h>
#include <stdlib.h>

#include <array>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "tenon/cuda_ipc/cuda_api.h"

namespace tenon::cuda_ipc::fake {
namespace {

[[noreturn]] void Refuse(const std::string& word) {
  fprintf(stderr, "fake driver: TENON_FAKE_CUDA: cannot read '%s'\n",
          word.c_str());
  abort();
}

uint64_t Number(const std::string& text, const std::string& word) {
  char* end = nullptr;
  const uint64_t value = strtoull(text.c_str(), &end, 0);
  if (text.empty() || *end != '\0') Refuse(word);
  return value;
}

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    parts.push_back(part);
  }
  return parts;
}

std::array<unsigned char, 16> Uuid(const std::string& digits,
                                   const std::string& word) {
  std::array<unsigned char, 16> uuid{};
  if (digits.size() != 32) Refuse(word);
  for (size_t i = 0; i < uuid.size(); ++i) {
    uuid[i] = static_cast<unsigned char>(
        Number("0x" + digits.substr(2 * i, 2), word));
  }
  return uuid;
}

DeviceSettings DefaultDevice(int index) {
  DeviceSettings device;
  device.name = "Fake " + std::to_string(index);
  device.total_bytes = size_t{80} << 30;
  device.uuid = {0xfa, 0x4e, 0, 0, 0, 0, 0, 0,
                 0,    0,    0, 0, 0, 0, 0, static_cast<unsigned char>(index)};
  device.attributes = {
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 1},
      {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0},
      {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
      {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
      {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0},
  };
  return device;
}

// "name1", for the device 1; the end of a word such as "memory" is for all.
void SetDevices(const std::string& key, const std::string& value,
                const std::string& word, std::vector<DeviceSettings>& devices) {
  const size_t digits = key.find_first_of("0123456789");
  const std::string what = key.substr(0, digits);
  const bool all = digits == std::string::npos;
  const uint64_t one = all ? 0 : Number(key.substr(digits), word);
  if (!all && one >= devices.size()) Refuse(word);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (!all && i != one) continue;
    if (what == "name") {
      devices[i].name = value;
    } else if (what == "memory") {
      devices[i].total_bytes = Number(value, word);
    } else if (what == "uuid" && !all) {
      devices[i].uuid = Uuid(value, word);
    } else if (what == "attribute") {
      const std::vector<std::string> parts = Split(value, ':');
      if (parts.size() != 2) Refuse(word);
      const int attribute = static_cast<int>(Number(parts[0], word));
      if (parts[1] == "none") {
        devices[i].attributes.erase(attribute);
      } else {
        devices[i].attributes[attribute] =
            static_cast<int>(Number(parts[1], word));
      }
    } else {
      Refuse(word);
    }
  }
}

void Set(const std::string& word, Settings& settings) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos) Refuse(word);
  const std::string key = word.substr(0, equals);
  const std::string value = word.substr(equals + 1);
  const auto number = [&] { return static_cast<int>(Number(value, word)); };
  if (key == "devices") {
    settings.devices.clear();
    for (int i = 0; i < number(); ++i) {
      settings.devices.push_back(DefaultDevice(i));
    }
  } else if (key == "version") {
    settings.version = number();
  } else if (key == "init") {
    settings.init = number();
  } else if (key == "texts") {
    settings.texts = number() != 0;
  } else if (key == "peers") {
    settings.peers = number() != 0;
  } else if (key == "read_only") {
    settings.read_only = number() != 0;
  } else if (key == "delay_us") {
    settings.delay_us = number();
  } else if (key == "seed") {
    settings.seed = number();
  } else if (key == "machine") {
    settings.machine = value;
  } else if (key == "leaks") {
    settings.leaks = value;
  } else if (key == "fail") {
    const std::vector<std::string> parts = Split(value, ':');
    if (parts.size() != 3) Refuse(word);
    settings.faults.push_back(
        {.entry = parts[0],
         .nth = Number(parts[1], word),
         .error = static_cast<int>(Number(parts[2], word))});
  } else {
    SetDevices(key, value, word, settings.devices);
  }
}

// As CUDA does: the devices listed, in this order, up to the first that is
// none.
void ApplyVisibleDevices(Settings& settings) {
  const char* const visible = getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return;
  std::vector<DeviceSettings> devices;
  for (const std::string& part : Split(visible, ',')) {
    char* end = nullptr;
    const uint64_t index = strtoull(part.c_str(), &end, 10);
    if (part.empty() || *end != '\0' || index >= settings.devices.size()) break;
    devices.push_back(settings.devices[index]);
  }
  settings.devices = devices;
}

std::string FromEnvironment() {
  const char* const text = getenv("TENON_FAKE_CUDA");
  return text == nullptr ? "" : text;
}

Settings& Current() {
  // Never destroyed: streams may run until the process ends.
  static auto* const settings = new Settings(ParseSettings(FromEnvironment()));
  return *settings;
}

}  // namespace

Settings ParseSettings(const std::string& text) {
  Settings settings;
  Set("devices=2", settings);
  std::stringstream stream(text);
  for (std::string word; stream >> word;) Set(word, settings);
  ApplyVisibleDevices(settings);
  return settings;
}

const Settings& CurrentSettings() { return Current(); }

void ResetSettings(const std::string& text) { Current() = ParseSettings(text); }

}  // namespace tenon::cuda_ipc::fake
