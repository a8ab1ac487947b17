// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TraceTool: counts the ranges of NVTX that Tenon makes in a test.

#ifndef TENON_CUDA_IPC_TRACE_TESTING_H_
#define TENON_CUDA_IPC_TRACE_TESTING_H_

#include <dlfcn.h>
#include <stdlib.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace tenon::cuda_ipc {

// Threads: thread-safe.
// Processes: of the one that made it, and of its children.
class TraceTool {
 public:
  // NVTX asks for a tool once in a process, at the first range: to be made
  // before.
  TraceTool()
      : path_(absl::StrCat(getenv("TEST_SRCDIR"), "/", getenv("TEST_WORKSPACE"),
                           "/cuda_ipc/internal/libtrace_injection.so")) {
    setenv("NVTX_INJECTION64_PATH", path_.c_str(), 1);
  }

  // Why there are no ranges; else empty.
  static std::string Missing() {
#ifdef TENON_HAS_NVTX
    return "";
#else
    return "the build found no nvtx3/nvToolsExt.h: no CUDA toolkit at "
           "$CUDA_PATH or /usr/local/cuda";
#endif
  }

  // How many ranges of this name have ended in this process; UINT64_MAX if this
  // thread has one that has not. 0 if no tool is attached.
  uint64_t Ended(const char* name) const {
    void* const tool = dlopen(path_.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (tool == nullptr) return 0;
    const auto ended = reinterpret_cast<uint64_t (*)(const char*)>(
        dlsym(tool, "TenonEndedRanges"));
    return ended == nullptr ? 0 : ended(name);
  }

 private:
  const std::string path_;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_TRACE_TESTING_H_
