// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/memory_kind_id.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace tenon {
namespace {

// Null for a received number.
const char* KnownName(MemoryKindId kind) {
  switch (kind) {
    case MemoryKindId::kCpu:
      return "CPU";
    case MemoryKindId::kCuda:
      return "CUDA";
    case MemoryKindId::kCudaLegacy:
      return "CUDA, legacy handles";
  }
  return nullptr;
}

std::string Numbered(MemoryKindId kind) {
  return absl::StrCat("kind ", static_cast<uint64_t>(kind));
}

}  // namespace

std::string NameOf(MemoryKindId kind) {
  const char* const name = KnownName(kind);
  return name == nullptr ? Numbered(kind)
                         : absl::StrCat(Numbered(kind), " (", name, ")");
}

std::string ShortNameOf(MemoryKindId kind) {
  const char* const name = KnownName(kind);
  return name == nullptr ? Numbered(kind) : name;
}

std::string TextOf(const DeviceIdentity& device) {
  if (device == DeviceIdentity{}) return "";
  std::string text;
  for (size_t i = 0; i < device.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppend(&text, absl::Hex(device[i], absl::kZeroPad2));
  }
  return text;
}

}  // namespace tenon
