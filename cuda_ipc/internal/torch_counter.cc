// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/torch_counter.h"

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/private_shm_file.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/segment/shm_name.h"

namespace tenon::cuda_ipc {
namespace {

constexpr int64_t kHeaderBytes = 64;
constexpr int64_t kCounterBytes = sizeof(int64_t);
constexpr int64_t kMaxCounter =
    (std::numeric_limits<off_t>::max() - kHeaderBytes) / kCounterBytes - 1;

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
  opened.offset = kHeaderBytes + counter * kCounterBytes;
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

// ---- The sender ----

absl::StatusOr<std::unique_ptr<TorchCounterFile>> TorchCounterFile::Create() {
  SegmentOptions options;
  options.strategy = SharingStrategy::kFileSystem;
  options.name_prefix = absl::StrCat("torch_", getpid());
  TENON_ASSIGN_OR_RETURN(
      Segment segment, Segment::CreateSharedWritable(
                           kHeaderBytes + kCounters * kCounterBytes, options));
  constexpr int32_t kReferences = 1;
  if (pwrite(segment.fd(), &kReferences, sizeof(kReferences), 0) !=
      ssize_t{sizeof(kReferences)}) {
    return PosixError(errno, "pwrite", segment.name());
  }
  return std::unique_ptr<TorchCounterFile>(
      new TorchCounterFile(std::move(segment)));
}

TorchCounterFile::TorchCounterFile(Segment segment)
    : segment_(std::move(segment)), name_(absl::StrCat("/", segment_.name())) {}

absl::StatusOr<int64_t> TorchCounterFile::Add() {
  TENON_RETURN_IF_ERROR(Write(used_, 1));
  return used_++;
}

absl::StatusOr<bool> TorchCounterFile::IsReleased(int64_t counter) const {
  int64_t value = 0;
  const ssize_t read = pread(segment_.fd(), &value, sizeof(value),
                             kHeaderBytes + counter * kCounterBytes);
  if (read < 0) return PosixError(errno, "pread", name_);
  if (read == ssize_t{sizeof(value)}) return value <= 0;
  return absl::DataLossError(
      absl::StrCat(Describe(name_, counter),
                   ": another process truncated the file; close the exporter "
                   "when its receiver has ended"));
}

absl::Status TorchCounterFile::Clear(int64_t counter) const {
  return Write(counter, 0);
}

absl::Status TorchCounterFile::Write(int64_t counter, int64_t value) const {
  if (pwrite(segment_.fd(), &value, sizeof(value),
             kHeaderBytes + counter * kCounterBytes) ==
      ssize_t{sizeof(value)}) {
    return absl::OkStatus();
  }
  return PosixError(errno, "pwrite", name_);
}

}  // namespace tenon::cuda_ipc
