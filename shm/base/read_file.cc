// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     size_t most_bytes) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return PosixError(errno, "open", path);
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() < most_bytes) {
    const size_t size = std::min(buffer.size(), most_bytes - text.size());
    const ssize_t got =
        RetryOnEintr([&] { return read(fd.get(), buffer.data(), size); });
    if (got < 0) return PosixError(errno, "read", path);
    if (got == 0) break;
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace tenon
