// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/needed_scans.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace tenon {
namespace {

// Second bytes of markers, ITU-T T.81, table B.1.
constexpr uint8_t kProgressiveFrame = 0xc2;
constexpr uint8_t kHuffmanTables = 0xc4;
constexpr uint8_t kFirstRestart = 0xd0;
constexpr uint8_t kLastRestart = 0xd7;
constexpr uint8_t kStart = 0xd8;
constexpr uint8_t kEnd = 0xd9;
constexpr uint8_t kScan = 0xda;
constexpr uint8_t kQuantization = 0xdb;
constexpr uint8_t kFirstApplication = 0xe0;
constexpr uint8_t kLastApplication = 0xef;
constexpr uint8_t kComment = 0xfe;

constexpr int kCoefficients = 64;
constexpr int kBlock = 8;
// Of JpegDecoder, by TJFLAG_LIMITSCANS.
constexpr int kMaxScans = 500;

struct Component {
  uint8_t id = 0;
  int horizontal = 1;  // Sampling factors.
  int vertical = 1;
  bool is_mean_only = false;  // At an eighth of the size.
  // The lowest bit of each coefficient that was in a scan; -1: none was.
  std::array<int, kCoefficients> lowest_bit;
};

struct Frame {
  int width = 0;
  int height = 0;
  int horizontal = 1;  // The largest sampling factors.
  int vertical = 1;
  std::vector<Component> components;
};

int TwoBytes(absl::Span<const uint8_t> bytes, size_t at) {
  return bytes[at] << 8 | bytes[at + 1];
}

// `segment` begins with its length.
std::optional<Frame> ReadFrame(absl::Span<const uint8_t> segment) {
  if (segment.size() < 8 || segment[2] != 8) return std::nullopt;
  const size_t components = segment[7];
  if (components < 1 || components > 4) return std::nullopt;
  if (segment.size() != 8 + 3 * components) return std::nullopt;
  Frame frame = {.width = TwoBytes(segment, 5),
                 .height = TwoBytes(segment, 3),
                 .components = std::vector<Component>(components)};
  if (frame.width == 0 || frame.height == 0) return std::nullopt;
  for (size_t i = 0; i < components; ++i) {
    Component& component = frame.components[i];
    component.id = segment[8 + 3 * i];
    component.horizontal = segment[9 + 3 * i] >> 4;
    component.vertical = segment[9 + 3 * i] & 15;
    if (component.horizontal < 1 || component.horizontal > 4 ||
        component.vertical < 1 || component.vertical > 4) {
      return std::nullopt;
    }
    component.lowest_bit.fill(-1);
    frame.horizontal = std::max(frame.horizontal, component.horizontal);
    frame.vertical = std::max(frame.vertical, component.vertical);
  }
  for (Component& component : frame.components) {
    // Else libjpeg makes 2 x 2 pixels of a block, in place of upsampling.
    component.is_mean_only =
        frame.horizontal % (2 * component.horizontal) != 0 ||
        frame.vertical % (2 * component.vertical) != 0;
  }
  return frame;
}

struct Scan {
  std::vector<Component*> components;
  int first = 0;  // Coefficients.
  int last = 0;
  int lowest_bit_before = 0;  // 0: this is the first scan of them.
  int lowest_bit = 0;
};

std::optional<Scan> ReadScan(absl::Span<const uint8_t> segment, Frame& frame) {
  if (segment.size() < 3) return std::nullopt;
  const size_t components = segment[2];
  if (segment.size() != 6 + 2 * components) return std::nullopt;
  Scan scan = {.first = segment[3 + 2 * components],
               .last = segment[4 + 2 * components],
               .lowest_bit_before = segment[5 + 2 * components] >> 4,
               .lowest_bit = segment[5 + 2 * components] & 15};
  for (size_t i = 0; i < components; ++i) {
    const auto found =
        std::find_if(frame.components.begin(), frame.components.end(),
                     [&](const Component& component) {
                       return component.id == segment[3 + 2 * i];
                     });
    if (found == frame.components.end()) return std::nullopt;
    scan.components.push_back(&*found);
  }
  const bool is_of_means = scan.first == 0 && scan.last == 0;
  const bool is_of_others = scan.first > 0 && scan.last >= scan.first &&
                            scan.last < kCoefficients && components == 1;
  if (!is_of_means && !is_of_others) return std::nullopt;
  return scan;
}

// Whether the scan continues those before it.
bool Follows(const Scan& scan) {
  for (Component* component : scan.components) {
    if (scan.first > 0 && component->lowest_bit[0] < 0) return false;
    for (int k = scan.first; k <= scan.last; ++k) {
      int& lowest_bit = component->lowest_bit[static_cast<size_t>(k)];
      const bool follows = lowest_bit < 0
                               ? scan.lowest_bit_before == 0
                               : scan.lowest_bit_before == lowest_bit &&
                                     scan.lowest_bit == lowest_bit - 1;
      if (!follows) return false;
      lowest_bit = scan.lowest_bit;
    }
  }
  return true;
}

// The marker after the data of a scan that begins at `at`.
std::optional<size_t> EndOfData(absl::Span<const uint8_t> jpeg, size_t at) {
  while (at < jpeg.size()) {
    const void* found = std::memchr(&jpeg[at], 0xff, jpeg.size() - at);
    if (found == nullptr) return std::nullopt;
    at = static_cast<size_t>(static_cast<const uint8_t*>(found) - jpeg.data());
    if (at + 1 == jpeg.size()) return std::nullopt;
    const uint8_t next = jpeg[at + 1];
    if (next >= kFirstRestart && next <= kLastRestart) return std::nullopt;
    if (next != 0) return at;
    at += 2;
  }
  return std::nullopt;
}

class BitWriter {
 public:
  explicit BitWriter(std::vector<uint8_t>& bytes) : bytes_(bytes) {}
  void Put(uint32_t value, int bits) {
    for (int i = bits - 1; i >= 0; --i) {
      byte_ = static_cast<uint8_t>(byte_ << 1 | (value >> i & 1));
      if (++bits_ == 8) Flush();
    }
  }
  void Finish() {
    while (bits_ != 0) Put(1, 1);
  }

 private:
  void Flush() {
    bytes_.push_back(byte_);
    if (byte_ == 0xff) bytes_.push_back(0);
    bits_ = 0;
  }

  std::vector<uint8_t>& bytes_;
  uint8_t byte_ = 0;
  int bits_ = 0;
};

// Codes of 4 bits for runs of empty blocks: code r is a run of 2^r, and as many
// more as r bits after it say.
constexpr int kRuns = 15;

void PutRunTable(std::vector<uint8_t>& jpeg) {
  constexpr size_t kLengths = 16;
  std::array<uint8_t, kLengths> codes = {};
  codes[3] = kRuns;
  jpeg.insert(jpeg.end(), {0xff, kHuffmanTables, 0, 3 + kLengths + kRuns,
                           0x10});  // Table 0 of coefficients other than means.
  jpeg.insert(jpeg.end(), codes.begin(), codes.end());
  for (int run = 0; run < kRuns; ++run) {
    jpeg.push_back(static_cast<uint8_t>(run << 4));
  }
}

int64_t Blocks(int size, int factor, int largest_factor) {
  const int samples = (size * factor + largest_factor - 1) / largest_factor;
  return (samples + kBlock - 1) / kBlock;
}

// A scan in which all coefficients but the means are 0.
void PutEmptyScan(const Frame& frame, const Component& component,
                  std::vector<uint8_t>& jpeg) {
  jpeg.insert(jpeg.end(),
              {0xff, kScan, 0, 8, 1, component.id, 0, 1, kCoefficients - 1, 0});
  int64_t blocks = Blocks(frame.width, component.horizontal, frame.horizontal) *
                   Blocks(frame.height, component.vertical, frame.vertical);
  BitWriter bits(jpeg);
  while (blocks > 0) {
    const int run = std::min<int>(
        kRuns - 1,
        static_cast<int>(std::bit_width(static_cast<uint64_t>(blocks))) - 1);
    const int64_t length = std::min(blocks, (int64_t{2} << run) - 1);
    bits.Put(static_cast<uint32_t>(run), 4);
    bits.Put(static_cast<uint32_t>(length - (int64_t{1} << run)), run);
    blocks -= length;
  }
  bits.Finish();
}

// Whether the file has all coefficients: else libjpeg guesses.
bool IsComplete(const Frame& frame) {
  return std::all_of(frame.components.begin(), frame.components.end(),
                     [](const Component& component) {
                       return std::all_of(component.lowest_bit.begin(),
                                          component.lowest_bit.end(),
                                          [](int bit) { return bit == 0; });
                     });
}

bool IsKept(const Scan& scan) {
  return scan.first == 0 || !scan.components[0]->is_mean_only;
}

// Tables, comments and the like, which say nothing of scans.
bool IsCopied(uint8_t marker) {
  return marker == kHuffmanTables || marker == kQuantization ||
         marker == kComment ||
         (marker >= kFirstApplication && marker <= kLastApplication);
}

}  // namespace

bool NeededScans(absl::Span<const uint8_t> jpeg, std::vector<uint8_t>& needed) {
  if (jpeg.size() < 2 || jpeg[0] != 0xff || jpeg[1] != kStart) return false;
  needed.assign({0xff, kStart});
  std::optional<Frame> frame;
  int scans = 0;
  bool left_out = false;
  for (size_t at = 2; at + 2 <= jpeg.size();) {
    if (jpeg[at] != 0xff) return false;
    const uint8_t marker = jpeg[at + 1];
    if (marker == kEnd) {
      if (!left_out || !IsComplete(*frame)) return false;
      PutRunTable(needed);
      for (const Component& component : frame->components) {
        if (component.is_mean_only) PutEmptyScan(*frame, component, needed);
      }
      needed.insert(needed.end(), {0xff, kEnd});
      return true;
    }
    if (at + 4 > jpeg.size()) return false;
    const auto length = static_cast<size_t>(TwoBytes(jpeg, at + 2));
    if (length < 2 || length > jpeg.size() - at - 2) return false;
    const absl::Span<const uint8_t> segment = jpeg.subspan(at + 2, length);
    size_t end = at + 2 + length;
    bool is_kept = true;
    if (marker == kProgressiveFrame && !frame) {
      frame = ReadFrame(segment);
      if (!frame) return false;
    } else if (marker == kScan && frame && ++scans <= kMaxScans) {
      const std::optional<Scan> scan = ReadScan(segment, *frame);
      const std::optional<size_t> data_end = EndOfData(jpeg, end);
      if (!scan || !data_end || !Follows(*scan)) return false;
      end = *data_end;
      is_kept = IsKept(*scan);
      left_out |= !is_kept;
    } else if (!IsCopied(marker)) {
      return false;
    }
    if (is_kept) {
      const absl::Span<const uint8_t> kept = jpeg.subspan(at, end - at);
      needed.insert(needed.end(), kept.begin(), kept.end());
    }
    at = end;
  }
  return false;
}

}  // namespace tenon
