// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/arena/memory_kind_id.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace tenon {
namespace {

const char* TextOf(MemoryKindId kind) {
  switch (kind) {
    case MemoryKindId::kCpu:
      return " (CPU)";
    case MemoryKindId::kCuda:
      return " (CUDA)";
    case MemoryKindId::kCudaLegacy:
      return " (CUDA, legacy handles)";
  }
  return "";  // A received number.
}

}  // namespace

std::string NameOf(MemoryKindId kind) {
  return absl::StrCat("kind ", static_cast<uint64_t>(kind), TextOf(kind));
}

}  // namespace tenon
