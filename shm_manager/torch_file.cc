// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/torch_file.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/private_shm_file.h"

namespace tenon {
namespace {

// More than processes can map it and drop.
constexpr int32_t kManyReferences = 1 << 30;

struct OpenFile {
  UniqueFd fd;
  TorchFile file;
};

// No descriptor if there is no such file.
absl::StatusOr<OpenFile> Open(const std::string& name) {
  absl::StatusOr<PrivateShmFile> opened = OpenPrivateShmFile(name);
  if (absl::IsNotFound(opened.status())) return OpenFile();
  if (!opened.ok()) return std::move(opened).status();
  OpenFile result;
  result.fd = std::move(opened->fd);
  result.file.allocated_bytes = opened->allocated_bytes;
  int32_t references = 0;
  if (pread(result.fd.get(), &references, sizeof(references), 0) ==
      static_cast<ssize_t>(sizeof(references))) {
    result.file.references = references;
  }
  return result;
}

}  // namespace

absl::StatusOr<std::optional<TorchFile>> ReadTorchFile(
    const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const OpenFile opened, Open(name));
  if (!opened.fd.valid()) return std::nullopt;
  return opened.file;
}

absl::StatusOr<std::optional<TorchFile>> RemoveTorchFile(
    const std::string& name) {
  TENON_ASSIGN_OR_RETURN(const OpenFile opened, Open(name));
  if (!opened.fd.valid()) return std::nullopt;
  // One that is too short stays so, and has no count.
  if (opened.file.references != 0 && pwrite(opened.fd.get(), &kManyReferences,
                                            sizeof(kManyReferences), 0) < 0) {
    return PosixError(errno, "pwrite", name);
  }
  TENON_CRASH_POINT("torch.raised");
  if (shm_unlink(absl::StrCat("/", name).c_str()) != 0) {
    if (errno == ENOENT) return std::nullopt;
    return PosixError(errno, "shm_unlink", name);
  }
  TENON_CRASH_POINT("torch.removed");
  return opened.file;
}

}  // namespace tenon
