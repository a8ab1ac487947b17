// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/reserve_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/available_memory.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

// In Debian 12's kernel a signal undoes the fallocate() that it interrupts. So
// the range is allocated in steps, which shrink until they fit between signals.
constexpr size_t kLargestStep = size_t{16} << 20;
constexpr size_t kSmallestStep = 4096;

// The bytes reserved by this process since its last check of the free memory:
// many small reservations count as one large one.
constinit std::atomic<size_t> taken_unseen{0};

// Checks the free memory, which costs some 100 us: before large reservations,
// after many small ones, and before each if little is left.
absl::Status CheckThereIsRoom(int fd, size_t size_bytes,
                              absl::string_view what) {
  const size_t taken =
      taken_unseen.fetch_add(size_bytes, std::memory_order_relaxed);
  if (size_bytes <= kLargestStep && taken <= kLargestStep - size_bytes) {
    return absl::OkStatus();
  }
  taken_unseen.store(kLargestStep, std::memory_order_relaxed);
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0) return PosixError(errno, "fstatfs", what);
  // A tmpfs without a limit (such as the one of memfds) reports 0 blocks.
  if (fs.f_blocks != 0 &&
      size_bytes / static_cast<size_t>(fs.f_bsize) > fs.f_bavail) {
    return PosixError(ENOSPC, "fallocate", what);
  }
  const AvailableMemory available = GetAvailableMemory();
  if (size_bytes > available.bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot reserve memory for ", what, ": only ",
                     SizeText(available.bytes), " of memory are available (",
                     available.bound_by, ")"));
  }
  if (available.bytes - size_bytes > kLargestStep) {
    taken_unseen.store(0, std::memory_order_relaxed);
  }
  return absl::OkStatus();
}

}  // namespace

bool ExceedsFileSizeLimit(size_t size_bytes) {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) == 0 && size_bytes > limit.rlim_cur;
}

absl::Status CheckFileSizeLimit(size_t size_bytes, absl::string_view call,
                                absl::string_view what) {
  return ExceedsFileSizeLimit(size_bytes) ? PosixError(EFBIG, call, what)
                                          : absl::OkStatus();
}

absl::Status SetFileSize(int fd, size_t size_bytes, absl::string_view what) {
  TENON_RETURN_IF_ERROR(CheckFileSizeLimit(size_bytes, "ftruncate", what));
  const auto size = static_cast<off_t>(size_bytes);
  if (RetryOnEintr([&] { return ftruncate(fd, size); }) != 0) {
    return PosixError(errno, "ftruncate", what);
  }
  return absl::OkStatus();
}

absl::Status ReservePages(int fd, size_t offset, size_t size_bytes,
                          absl::string_view what) {
  TENON_RETURN_IF_ERROR(CheckThereIsRoom(fd, size_bytes, what));
  return AllocatePages(fd, offset, size_bytes, what);
}

absl::Status AllocatePages(int fd, size_t offset, size_t size_bytes,
                           absl::string_view what) {
  size_t step = kLargestStep;
  while (size_bytes > 0) {
    const size_t now = std::min(step, size_bytes);
    if (fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(now)) ==
        0) {
      offset += now;
      size_bytes -= now;
      step = std::min(step * 2, kLargestStep);
    } else if (errno == EINTR) {
      step = std::max(step / 2, kSmallestStep);
    } else {
      return PosixError(errno, "fallocate", what);
    }
  }
  return absl::OkStatus();
}

absl::Status WritePages(int fd, std::span<const std::byte> contents,
                        absl::string_view what) {
  TENON_RETURN_IF_ERROR(CheckThereIsRoom(fd, contents.size(), what));
  size_t written = 0;
  while (written < contents.size()) {
    const ssize_t now = RetryOnEintr([&] {
      return pwrite(fd, contents.data() + written, contents.size() - written,
                    static_cast<off_t>(written));
    });
    if (now < 0) return PosixError(errno, "pwrite", what);
    // Never the case for memory; avoids an endless loop.
    if (now == 0) return PosixError(EIO, "pwrite", what);
    written += static_cast<size_t>(now);
  }
  return absl::OkStatus();
}

}  // namespace tenon
