// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The frame: the header that a Channel puts before the bytes of each message.
//
//    0         4         8         12     14     16
//   +---------+---------+---------+------+------+--------------------+
//   | magic   | version | payload | fd   | kind | payload            |
//   |         |         | bytes   | count|      |                    |
//   +---------+---------+---------+------+------+--------------------+
//
// In the machine's own byte order; one frame is one datagram. The magic number
// and the version keep their offsets in every future version, so that two
// incompatible builds can report the mismatch.
//
// The payload is the message, or, if that is too large for a datagram, its size
// as 64 bits; then the first of the descriptors is the segment with its bytes.
//
// The descriptors travel beside the datagram. Their count is in the frame, so
// that a message that lost or gained some is detected.

#ifndef TENON_IPC_CHANNEL_FRAME_H_
#define TENON_IPC_CHANNEL_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/wire_version.h"

namespace tenon {

inline constexpr uint32_t kFrameMagic = 0x6e6f6e54;  // "Tnon" on x86.
inline uint32_t FrameVersion() { return WireVersion(2); }

enum class FrameKind : uint16_t {
  kBytes = 0,
  kBytesInSegment = 1,
  kEnd = 2,  // No message follows; without payload and descriptors.
};

struct FrameHeader {
  uint32_t magic = kFrameMagic;
  uint32_t version = FrameVersion();
  uint32_t payload_bytes = 0;
  uint16_t fd_count = 0;
  FrameKind kind = FrameKind::kBytes;
};
static_assert(std::is_trivially_copyable_v<FrameHeader>);
static_assert(sizeof(FrameHeader) == 16, "no padding, which would leak bytes");

struct Frame {
  absl::string_view payload;   // A view into the datagram.
  uint64_t segment_bytes = 0;  // Not 0: the message is in a segment.
  bool is_end = false;         // No message: the end of them.
};

// Parses `datagram`, which may be anything and came with `fd_count`
// descriptors.
// Errors: kDataLoss naming the malformed part, if it is not a whole frame of
// this version that announces `fd_count` descriptors.
absl::StatusOr<Frame> ParseFrame(absl::string_view datagram, size_t fd_count);

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_FRAME_H_
