// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/large_message.h"

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/segment_options.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon {
namespace {

// The peer chooses the size, and a limit of this process (RLIMIT_AS, a machine
// that does not overcommit) may forbid the allocation.
absl::Status Allocate(uint64_t size, std::string* bytes) {
  try {
    bytes->resize(size);
    return absl::OkStatus();
  } catch (const std::exception&) {
    return PosixError(ENOMEM, "allocate",
                      absl::StrCat("a message of ", SizeText(size)));
  }
}

absl::Status ReadAll(int fd, std::string* bytes) {
  for (size_t done = 0; done < bytes->size();) {
    const ssize_t size = RetryOnEintr([&] {
      return pread(fd, bytes->data() + done, bytes->size() - done,
                   static_cast<off_t>(done));
    });
    if (size < 0) return PosixError(errno, "pread", "a message in a segment");
    if (size == 0) {
      return absl::DataLossError("the message ends before its segment does");
    }
    done += static_cast<size_t>(size);
  }
  return absl::OkStatus();
}

// The receiver sees one error code for every malformed segment.
absl::Status BadSegment(const absl::Status& status) {
  if (!absl::IsInvalidArgument(status) && !absl::IsFailedPrecondition(status)) {
    return status;
  }
  return absl::DataLossError(
      absl::StrCat("the peer sent a large message without a sealed segment: ",
                   status.message()));
}

}  // namespace

absl::StatusOr<Segment> StoreMessage(absl::string_view bytes) {
  return Segment::CreateFilled(
      std::as_bytes(std::span(bytes.data(), bytes.size())),
      SegmentKind::kOwnerWritten,
      {.strategy = SharingStrategy::kFileDescriptor,
       .name_prefix = "tenon-message"});
}

absl::StatusOr<std::string> LoadMessage(UniqueFd* fd, uint64_t announced,
                                        uint64_t max_bytes) {
  const absl::StatusOr<Segment> segment =
      Segment::Adopt(std::move(*fd), SegmentKind::kOwnerWritten);
  if (!segment.ok()) return BadSegment(segment.status());
  if (segment->size_bytes() != announced) {
    return absl::DataLossError(
        absl::StrCat("the peer announced a message of ", announced,
                     " bytes; its segment has ", segment->size_bytes()));
  }
  if (announced > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the peer sent a message of ", SizeText(announced),
                     "; this channel accepts at most ", SizeText(max_bytes),
                     " (max_message_bytes of its options)"));
  }
  std::string bytes;
  TENON_RETURN_IF_ERROR(Allocate(announced, &bytes));
  TENON_RETURN_IF_ERROR(ReadAll(segment->fd(), &bytes));
  return bytes;
}

}  // namespace tenon
