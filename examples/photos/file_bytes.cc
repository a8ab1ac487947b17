// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/file_bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

absl::Status ReadFile(const std::string& path, std::vector<uint8_t>& bytes) {
  const UniqueFd fd(RetryOnEintr(
      [&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!fd.valid()) return PosixError(errno, "open", path);
  struct stat file;
  if (fstat(fd.get(), &file) != 0) return PosixError(errno, "fstat", path);
  if (!S_ISREG(file.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is not a regular file"));
  }
  // One byte more than the expected size: a read that fills it shows growth,
  // and a shorter one is known to be the last without another call.
  bytes.resize(static_cast<size_t>(file.st_size) + 1);
  size_t filled = 0;
  for (;;) {
    const ssize_t n = RetryOnEintr([&] {
      return read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    });
    if (n < 0) return PosixError(errno, "read", path);
    filled += static_cast<size_t>(n);
    if (n == 0 || filled < bytes.size()) break;
    bytes.resize(2 * bytes.size());
  }
  bytes.resize(filled);
  return absl::OkStatus();
}

}  // namespace tenon
