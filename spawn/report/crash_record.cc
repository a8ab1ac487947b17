// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/crash_record.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/report/crash_layout.h"

namespace tenon::spawn {
namespace {

// A larger record was written by other code of the child.
constexpr size_t kMaxBytes = 4 << 20;

absl::StatusOr<std::string> ReadAll(int fd) {
  struct stat file = {};
  if (fstat(fd, &file) != 0) return PosixError(errno, "fstat", "crash record");
  std::string bytes(std::min(static_cast<size_t>(file.st_size), kMaxBytes), 0);
  const ssize_t got = pread(fd, bytes.data(), bytes.size(), 0);
  if (got < 0) return PosixError(errno, "pread", "crash record");
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

}  // namespace

absl::StatusOr<UniqueFd> CreateCrashRecord() {
  UniqueFd fd(memfd_create("tenon-crash", MFD_CLOEXEC));
  if (fd.valid()) return fd;
  return PosixError(errno, "memfd_create", "crash record");
}

absl::StatusOr<CrashRecord> ParseCrashRecord(absl::string_view bytes) {
  CrashHeader header;
  if (bytes.size() < sizeof(header)) {
    return absl::DataLossError("crash record: shorter than its header");
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  bytes.remove_prefix(sizeof(header));
  if (header.magic != CrashHeader::kMagic || header.frames > kMaxCrashFrames ||
      bytes.size() < header.frames * sizeof(uint64_t)) {
    return absl::DataLossError("crash record: malformed header");
  }
  const absl::string_view maps = bytes.substr(header.frames * sizeof(uint64_t));
  CrashRecord record = {
      .signal = header.signal, .time_ns = header.time_ns, .stack = ""};
  for (uint32_t i = 0; i < header.frames; ++i) {
    uint64_t address = 0;
    std::memcpy(&address, bytes.data() + i * sizeof(address), sizeof(address));
    absl::StrAppend(&record.stack, "#", i, " 0x", absl::Hex(address), " in ",
                    DescribeAddress(address, maps), "\n");
  }
  return record;
}

absl::StatusOr<std::optional<CrashRecord>> ReadCrashRecord(int fd) {
  TENON_ASSIGN_OR_RETURN(const std::string bytes, ReadAll(fd));
  if (bytes.empty()) return std::nullopt;
  TENON_ASSIGN_OR_RETURN(CrashRecord record, ParseCrashRecord(bytes));
  return record;
}

}  // namespace tenon::spawn
