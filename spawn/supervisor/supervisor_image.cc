// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/supervisor/supervisor_image.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/supervisor/supervisor_program_bytes.h"

// Since Linux 6.3.
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace tenon::spawn {
namespace {

std::atomic<bool> execute_from_memory{true};

UniqueFd CreateExecutable(const char* name) {
  UniqueFd fd(memfd_create(name, MFD_CLOEXEC | MFD_EXEC));
  if (fd.valid() || errno != EINVAL) return fd;
  return UniqueFd(memfd_create(name, MFD_CLOEXEC));
}

// Whether a file may grow to `size`: otherwise the kernel could kill this
// process (SIGXFSZ).
bool MayWrite(size_t size) {
  rlimit limit = {};
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= size;
}

}  // namespace

void SetExecuteFromMemory(bool allowed) { execute_from_memory = allowed; }

UniqueFd OpenSupervisorImage() {
  if (!execute_from_memory) return UniqueFd();
  constexpr size_t kSize = sizeof(kSupervisorProgram);
  if (!MayWrite(kSize)) return UniqueFd();
  const UniqueFd written = CreateExecutable("tenon-supervise");
  if (!written.valid() ||
      write(written.get(), kSupervisorProgram, kSize) != ssize_t{kSize}) {
    return UniqueFd();
  }
  // A file that is open for writing cannot be executed.
  return UniqueFd(open(absl::StrCat("/proc/self/fd/", written.get()).c_str(),
                       O_RDONLY | O_CLOEXEC));
}

}  // namespace tenon::spawn
