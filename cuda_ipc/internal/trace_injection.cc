// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A tool for NVTX, for a test: counts the ranges of the domain "tenon" that
// have ended. NVTX loads it from $NVTX_INJECTION64_PATH. Without the headers of
// NVTX it is empty.

#ifdef TENON_HAS_NVTX

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace {

std::mutex mutex;

std::map<std::string, uint64_t>& Ended() {
  static auto* const ended = new std::map<std::string, uint64_t>;
  return *ended;
}

thread_local std::vector<std::string> open_ranges;

int tenon_domain;  // Its address is the handle.

nvtxDomainHandle_t CreateDomain(const char* name) {
  return std::strcmp(name, "tenon") == 0
             ? reinterpret_cast<nvtxDomainHandle_t>(&tenon_domain)
             : nullptr;
}

bool IsTenon(nvtxDomainHandle_t domain) {
  return domain == reinterpret_cast<nvtxDomainHandle_t>(&tenon_domain);
}

int PushRange(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* range) {
  if (!IsTenon(domain)) return NVTX_NO_PUSH_POP_TRACKING;
  open_ranges.emplace_back(range->message.ascii);
  return static_cast<int>(open_ranges.size()) - 1;
}

int PopRange(nvtxDomainHandle_t domain) {
  if (!IsTenon(domain) || open_ranges.empty()) return NVTX_NO_PUSH_POP_TRACKING;
  const std::lock_guard lock(mutex);
  ++Ended()[open_ranges.back()];
  open_ranges.pop_back();
  return static_cast<int>(open_ranges.size());
}

}  // namespace

extern "C" {

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table) {
  const auto* const callbacks = static_cast<const NvtxExportTableCallbacks*>(
      get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned int size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) ==
          0 ||
      size <= NVTX_CBID_CORE2_DomainCreateA) {
    return 0;
  }
  *table[NVTX_CBID_CORE2_DomainCreateA] =
      reinterpret_cast<NvtxFunctionPointer>(&CreateDomain);
  *table[NVTX_CBID_CORE2_DomainRangePushEx] =
      reinterpret_cast<NvtxFunctionPointer>(&PushRange);
  *table[NVTX_CBID_CORE2_DomainRangePop] =
      reinterpret_cast<NvtxFunctionPointer>(&PopRange);
  return 1;
}

// How many ranges of this name have ended; UINT64_MAX if this thread has one
// that has not.
uint64_t TenonEndedRanges(const char* name) {
  if (!open_ranges.empty()) return UINT64_MAX;
  const std::lock_guard lock(mutex);
  return Ended()[name];
}

}  // extern "C"

#endif  // TENON_HAS_NVTX
