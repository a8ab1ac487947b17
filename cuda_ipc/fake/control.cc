// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/control.h"

#include <stdio.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "tenon/cuda_ipc/fake/contexts.h"
#include "tenon/cuda_ipc/fake/entry_state.h"
#include "tenon/cuda_ipc/fake/events.h"
#include "tenon/cuda_ipc/fake/faults.h"
#include "tenon/cuda_ipc/fake/memory.h"
#include "tenon/cuda_ipc/fake/settings.h"
#include "tenon/cuda_ipc/fake/streams.h"
#include "tenon/cuda_ipc/fake/virtual_memory.h"

namespace tenon::cuda_ipc::fake {
namespace {

const char* KindName(RangeKind kind) {
  switch (kind) {
    case RangeKind::kMapping:
      return "mapping";
    case RangeKind::kAllocation:
      return "allocation";
    case RangeKind::kImport:
      return "import";
    case RangeKind::kHost:
      return "registration";
  }
  return "";
}

std::vector<std::string> Leaks() {
  const std::lock_guard lock(TableLock());
  std::vector<std::string> leaks;
  AddVirtualMemoryLeaks(leaks);
  for (const auto& [address, range] : Addresses().ranges) {
    if (range.kind == RangeKind::kMapping) continue;
    leaks.push_back(std::string(KindName(range.kind)) + " of " +
                    std::to_string(range.bytes) + " bytes");
  }
  AddStreamLeaks(leaks);
  AddEventLeaks(leaks);
  AddContextLeaks(leaks);
  return leaks;
}

size_t WriteLeaks(char* text, size_t size) {
  const std::vector<std::string> leaks = Leaks();
  std::string lines;
  for (const std::string& leak : leaks) lines += leak + "\n";
  snprintf(text, size, "%s", lines.c_str());
  return leaks.size();
}

void Reset(const char* settings) {
  {
    const std::lock_guard lock(TableLock());
    ResetStreams();
    ResetEvents();
    ResetVirtualMemory();
    ResetContexts();
  }
  ResetInitialized();
  ResetSettings(settings);
  ResetFaults();
}

size_t WriteErrors(const char* entry, int* errors, size_t size) {
  const std::vector<int> all = DocumentedErrors(entry);
  std::copy_n(all.begin(), std::min(all.size(), size), errors);
  return all.size();
}

constexpr Control kControl = {
    .reset = Reset,
    .calls = [](const char* entry) -> uint64_t {
      return CallsOf(entry == nullptr ? "" : entry);
    },
    .fail = [](const char* entry, uint64_t nth,
               int error) { SetFault(entry, nth, error); },
    .errors = WriteErrors,
    .leaks = WriteLeaks,
    .held_bytes = [](int device) -> uint64_t { return HeldBytes(device); },
};

// At the load of the library, and at the end of the process.
struct Process {
  Process() { ResetFaults(); }
  ~Process() {
    const std::string& path = CurrentSettings().leaks;
    if (path.empty()) return;
    FILE* const file = fopen(path.c_str(), "ae");
    if (file == nullptr) return;
    for (const std::string& leak : Leaks()) {
      fprintf(file, "%s\n", leak.c_str());
    }
    fclose(file);
  }
};
const Process process;

}  // namespace

extern "C" const Control* TenonFakeCudaControl() { return &kControl; }

}  // namespace tenon::cuda_ipc::fake
