// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/torch_counter.h"

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/private_shm_file.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon::cuda_ipc {
namespace {

constexpr int64_t kHeaderBytes = 64;
constexpr int64_t kMaxCounter =
    (std::numeric_limits<off_t>::max() - kHeaderBytes) /
        int64_t{sizeof(int64_t)} -
    1;

std::string Describe(absl::string_view file, int64_t counter) {
  return absl::StrCat("counter ", counter, " of torch's file '", file, "'");
}

struct OpenCounter {
  PrivateShmFile file;
  off_t offset = 0;
  int64_t value = 0;
};

absl::StatusOr<OpenCounter> Open(absl::string_view file, int64_t counter) {
  if (!absl::StartsWith(file, "/torch_") ||
      !CheckShmName(file.substr(1)).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(file, counter),
                     ": want a name in /dev/shm that begins with '/torch_'"));
  }
  if (counter < 0 || counter > kMaxCounter) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(file, counter), ": no file has so many bytes"));
  }
  OpenCounter opened;
  TENON_ASSIGN_OR_RETURN(opened.file,
                         OpenPrivateShmFile(std::string(file.substr(1))));
  opened.offset = kHeaderBytes + counter * int64_t{sizeof(int64_t)};
  const ssize_t read = pread(opened.file.fd.get(), &opened.value,
                             sizeof(opened.value), opened.offset);
  if (read < 0) return PosixError(errno, "pread", file);
  if (read != ssize_t{sizeof(opened.value)}) {
    return absl::InvalidArgumentError(
        absl::StrCat(Describe(file, counter), ": the file has ",
                     opened.file.size_bytes, " bytes; want at least ",
                     opened.offset + int64_t{sizeof(opened.value)}));
  }
  if (opened.value > 0) return opened;
  return absl::FailedPreconditionError(absl::StrCat(
      Describe(file, counter), " is ", opened.value,
      ": the message was released before; torch keeps its memory no longer"));
}

}  // namespace

absl::Status CheckTorchCounter(absl::string_view file, int64_t counter) {
  return Open(file, counter).status();
}

absl::Status ReleaseTorchCounter(absl::string_view file, int64_t counter) {
  TENON_ASSIGN_OR_RETURN(const OpenCounter opened, Open(file, counter));
  // No other process writes it: a counter is of one message.
  const int64_t value = opened.value - 1;
  if (pwrite(opened.file.fd.get(), &value, sizeof(value), opened.offset) !=
      ssize_t{sizeof(value)}) {
    return PosixError(errno, "pwrite", file);
  }
  return absl::OkStatus();
}

}  // namespace tenon::cuda_ipc
