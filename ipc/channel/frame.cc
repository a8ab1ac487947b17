// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

absl::Status NotAFrame(absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("the peer sent a malformed frame: ", why));
}

absl::Status CheckMagicAndVersion(const FrameHeader& header) {
  if (header.magic != kFrameMagic) {
    return NotAFrame(absl::StrCat("bad magic 0x", absl::Hex(header.magic),
                                  ", want 0x", absl::Hex(kFrameMagic)));
  }
  if (header.version != FrameVersion()) {
    return absl::DataLossError(
        absl::StrCat("the peer sends frames of version ", header.version,
                     " and this process reads version ", FrameVersion(),
                     "; build both from one version of Tenon"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Frame> InSegment(absl::string_view payload, size_t fd_count) {
  Frame frame = {.payload = payload};
  if (payload.size() != sizeof(frame.segment_bytes) || fd_count == 0) {
    return NotAFrame(absl::StrCat("it names a segment with ", payload.size(),
                                  " bytes and ", fd_count, " descriptors"));
  }
  std::memcpy(&frame.segment_bytes, payload.data(), payload.size());
  if (frame.segment_bytes == 0) {
    return NotAFrame("it names a segment of 0 bytes");
  }
  return frame;
}

}  // namespace

absl::StatusOr<Frame> ParseFrame(absl::string_view datagram, size_t fd_count) {
  FrameHeader header;
  // Another version's header may be shorter than this one's.
  if (datagram.size() >= offsetof(FrameHeader, payload_bytes)) {
    std::memcpy(&header, datagram.data(),
                std::min(datagram.size(), sizeof(header)));
    TENON_RETURN_IF_ERROR(CheckMagicAndVersion(header));
  }
  if (datagram.size() < sizeof(header)) {
    return NotAFrame(absl::StrCat("it has ", datagram.size(),
                                  " bytes; a header has ", sizeof(header)));
  }
  const absl::string_view payload = datagram.substr(sizeof(header));
  if (header.payload_bytes != payload.size()) {
    return NotAFrame(absl::StrCat("it announces ", header.payload_bytes,
                                  " bytes but has ", payload.size()));
  }
  if (header.fd_count != fd_count) {
    return NotAFrame(absl::StrCat("it announces ", header.fd_count,
                                  " descriptors but came with ", fd_count));
  }
  switch (header.kind) {
    case FrameKind::kBytes:
      return Frame{.payload = payload};
    case FrameKind::kBytesInSegment:
      return InSegment(payload, fd_count);
    case FrameKind::kEnd:
      if (!payload.empty() || fd_count != 0) {
        return NotAFrame(absl::StrCat("an end with ", payload.size(),
                                      " bytes and ", fd_count, " descriptors"));
      }
      return Frame{.payload = payload, .is_end = true};
  }
  return NotAFrame(
      absl::StrCat("unknown kind ", static_cast<uint16_t>(header.kind)));
}

}  // namespace tenon
