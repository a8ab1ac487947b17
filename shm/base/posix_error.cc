// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/posix_error.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/available_memory.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// glibc gives the RLIMIT_ constants a type of their own, other libraries int.
using Resource = decltype(RLIMIT_NOFILE);

std::string LimitInWords(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : absl::StrCat(limit);
}

// For a limit in the unit of ulimit.
std::string CountLimitHint(Resource resource, absl::string_view what,
                           absl::string_view name, absl::string_view flag) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0) return "";
  const std::string hard = LimitInWords(limit.rlim_max);
  return absl::StrCat(
      "; ", what, " ", LimitInWords(limit.rlim_cur), " (", name,
      "; hard limit ", hard, "); ",
      limit.rlim_cur == limit.rlim_max ? "raise it as root: ulimit "
                                       : "raise it: ulimit ",
      flag, " ", limit.rlim_cur == limit.rlim_max ? "<more>" : hard);
}

// For a limit in bytes; empty if there is none. ulimit uses other units.
std::string SizeLimitHint(Resource resource, absl::string_view what,
                          absl::string_view name, absl::string_view flag) {
  rlimit limit;
  if (getrlimit(resource, &limit) != 0) return "";
  if (limit.rlim_cur == RLIM_INFINITY) return "";
  return absl::StrCat("; ", what, " ", SizeText(limit.rlim_cur), ", ", name,
                      "; raise it: ulimit ", flag, " unlimited");
}

// A file of one line under /proc/sys. Empty on errors: the descriptors may be
// exhausted.
std::string SysctlValue(const char* path) {
  const UniqueFd fd(open(path, O_RDONLY | O_CLOEXEC));
  char text[64];
  const ssize_t size =
      RetryOnEintr([&] { return read(fd.get(), text, sizeof(text)); });
  if (size <= 0) return "unknown";
  return std::string(absl::StripAsciiWhitespace(
      absl::string_view(text, static_cast<size_t>(size))));
}

std::string SysctlHint(absl::string_view what, const char* path,
                       absl::string_view name) {
  return absl::StrCat("; ", what, " ", SysctlValue(path), " (", name,
                      "); raise it: sysctl -w ", name, "=<more>");
}

// RLIMIT_AS first: where it is set, it is usually the limit that was reached.
std::string MappingHint() {
  return absl::StrCat(
      SizeLimitHint(RLIMIT_AS,
                    "address space this process may use:", "RLIMIT_AS", "-v"),
      SysctlHint("mappings that a process may have:",
                 "/proc/sys/vm/max_map_count", "vm.max_map_count"));
}

std::string ShmSpaceHint() {
  struct statfs fs;
  if (statfs("/dev/shm", &fs) != 0) return "";
  const auto unit = static_cast<uint64_t>(fs.f_bsize);
  return absl::StrCat("; /dev/shm has ", SizeText(fs.f_bavail * unit), " of ",
                      SizeText(fs.f_blocks * unit), " and ", fs.f_ffree, " of ",
                      fs.f_files,
                      " inodes free; enlarge it: mount -o "
                      "remount,size=<bytes> /dev/shm (in a container: "
                      "--shm-size), or use the file_descriptor strategy");
}

// Empty if /dev/shm exists, so that another file is missing.
std::string NoShmHint() {
  struct statfs fs;
  if (statfs("/dev/shm", &fs) == 0) return "";
  return "; there is no /dev/shm; make one: mkdir -p /dev/shm && mount -t "
         "tmpfs "
         "tmpfs /dev/shm, or use the file_descriptor strategy";
}

std::string MemoryHint() {
  const AvailableMemory available = GetAvailableMemory();
  return absl::StrCat("; out of memory: ", SizeText(available.bytes),
                      " are available (", available.bound_by, ")");
}

// Advice for a caller that has just hit a limit; empty for other errors. One
// errno stands for several limits; call and object determine which.
std::string Hint(int error_number, absl::string_view call,
                 absl::string_view object) {
  const auto mentions = [&](absl::string_view word) {
    return absl::StrContains(call, word) || absl::StrContains(object, word);
  };
  switch (error_number) {
    case EMFILE:
      return absl::StrCat(
          CountLimitHint(RLIMIT_NOFILE,
                         "files this process may open:", "RLIMIT_NOFILE", "-n"),
          ", or use fewer: tensors in an arena share one descriptor, those of "
          "the file_system strategy have none");
    case ETOOMANYREFS:
      return CountLimitHint(
          RLIMIT_NOFILE,
          "descriptors that this user may have in flight, sent and not yet "
          "received, over all processes:",
          "RLIMIT_NOFILE", "-n");
    case ENFILE:
      return SysctlHint("files the machine may have open:",
                        "/proc/sys/fs/file-max", "fs.file-max");
    case EFBIG:
      return SizeLimitHint(RLIMIT_FSIZE, "largest file this process may make:",
                           "RLIMIT_FSIZE", "-f");
    case ENOMEM:
      return absl::StrContains(call, "mmap") ? MappingHint() : MemoryHint();
    case ENOSPC:
      if (mentions("/dev/shm")) return ShmSpaceHint();
      return mentions("memfd") ? MemoryHint() : "";
    case EROFS:
      return mentions("/dev/shm")
                 ? "; make it writable: mount -o remount,rw /dev/shm, or use "
                   "the file_descriptor strategy"
                 : "";
    case ENOENT:
      return mentions("/dev/shm") ? NoShmHint() : "";
    case EINVAL:
      return absl::StrContains(call, "F_OFD_")
                 ? "; this kernel or sandbox lacks locks of open file "
                   "descriptions, which hold names; use the file_descriptor "
                   "strategy"
                 : "";
    case EAGAIN:
      if (!mentions("fork") && !mentions("spawn") && !mentions("clone")) {
        return "";
      }
      return CountLimitHint(
          RLIMIT_NPROC, "processes this user may have:", "RLIMIT_NPROC", "-u");
    default:
      return "";
  }
}

absl::StatusCode Code(int error_number) {
  switch (error_number) {
    case EDQUOT:
    case EFBIG:
    case ENOLCK:
    case ETOOMANYREFS:
      return absl::StatusCode::kResourceExhausted;
    default:
      return absl::ErrnoToStatusCode(error_number);
  }
}

// What there is too little of.
constexpr char kShortage[] = "tenon.shortage";
constexpr char kDescriptors[] = "descriptors";

}  // namespace

absl::Status PosixError(int error_number, absl::string_view call,
                        absl::string_view object) {
  const char* words = strerrordesc_np(error_number);
  const char* name = strerrorname_np(error_number);
  absl::Status status(
      Code(error_number),
      absl::StrCat(call, "(", object, "): ", words ? words : "unknown error",
                   " [", name ? name : absl::StrCat(error_number), "]",
                   Hint(error_number, call, object)));
  if (error_number == EMFILE || error_number == ENFILE) {
    status.SetPayload(kShortage, absl::Cord(kDescriptors));
  }
  return status;
}

bool IsLackOfDescriptors(const absl::Status& status) {
  return status.GetPayload(kShortage) == absl::Cord(kDescriptors);
}

}  // namespace tenon
