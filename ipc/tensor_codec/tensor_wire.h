// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The wire format of a TensorMessage, and the queue record that carries it.
// Internal to tensor queues.
//
// A record, of a fixed size:
//
//   0       2         3      4       8
//   | magic | version | form | bytes | `bytes` bytes, then padding
//
//   form 1: the body of the message
//   form 2: a BlockDescriptor and, in 64 bits, the size of the body at the
//           beginning of that block
//   form 3: a BlockDescriptor and a dense TensorSpec, as in a body: a message
//           of that one tensor
//
// The most frequent message, one dense tensor that begins where its block
// begins, has a form of 56 bytes, so that the slot of a queue with its sequence
// word is one cache line:
//
//   0       2         3        4       8        24        28      32
//   | magic | version | form 4 | dtype | arena  | segment | block | generation
//   40              44     45
//   | size / 64     | rank | extents as LEB128, then zeros
//
// A body, without any padding, in the machine's own byte order:
//
//   u32 storages, u32 fields, then each storage, then each field:
//   a storage is a byte with its location (WireLocation), and
//     kBlock:    a BlockDescriptor
//     kSegment:  u8 strategy, u8 kind, u64 bytes, u64 device, u64 inode,
//                u64 key, u8 length and name
//     kLoan:     u32 type of device (DLDeviceType), and the BlockDescriptor of
//                the loan (shm/tensor/tensor_loan.h)
//   a field is a byte with its type, and
//     1: i64    2: double    3: u64 length and string
//     4: u32 number of its storage, and a TensorSpec without the entries beyond
//        its rank; 5: and without strides, as it is dense
//
// Two tensors of one storage name the same storage of the body, and so share
// one storage at the receiver, too.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_WIRE_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_WIRE_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

enum class WireLocation : uint8_t {
  kEmpty = 0,    // No bytes.
  kHere = 1,     // In the block that holds the body.
  kBlock = 2,    // In a block of an arena.
  kSegment = 3,  // In a segment of its own.
  kLoan = 4,     // On a device, in no pool; a block stands for it.
};

// The key of a name that the sender's NameKeeper holds for this message: its
// receiver releases it.
inline constexpr uint64_t kKeptName = 1;

// A TensorHandle without its spec.
struct WireSegment {
  TensorHandle::Strategy strategy = TensorHandle::Strategy::kFileDescriptor;
  TensorHandle::Kind kind = TensorHandle::Kind::kSharedWritable;
  uint64_t storage_bytes = 0;
  Storage::Id id;
  // Of the descriptor that the sender has published; of a name: kKeptName, or
  // 0.
  uint64_t key = 0;
  absl::string_view name;  // Up to 255 bytes.
};

struct WireStorage {
  WireLocation location = WireLocation::kEmpty;
  BlockDescriptor block;    // Of kBlock and kLoan.
  int32_t device_type = 0;  // Of kLoan.
  WireSegment segment;      // Of kSegment.
};

struct WireTensor {
  uint32_t storage = 0;
  const TensorSpec* spec = nullptr;
};

using WireField = std::variant<int64_t, double, absl::string_view, WireTensor>;

// Ownership: strings and specs belong to the message that was encoded, or to
//   the parsed bytes and `specs`.
struct TensorWire {
  TensorWire() = default;
  TensorWire(const TensorWire&) = delete;
  TensorWire& operator=(const TensorWire&) = delete;

  absl::InlinedVector<WireStorage, 1> storages;
  absl::InlinedVector<WireField, 1> fields;
  absl::InlinedVector<TensorSpec, 1> specs;
};

// The size of a body; writes the body into `out`, which has that size.
size_t WireBytes(const TensorWire& wire);
void WriteWire(const TensorWire& wire, std::span<std::byte> out);

// Trust: the bytes may be anything. The result is a body that WriteWire()
//   reproduces; its specs and handles are not validated yet. Allocates at most
//   about 200 times the size of the input.
// Errors: kDataLoss naming the malformed part.
absl::Status ParseWire(std::span<const std::byte> body, TensorWire* wire);

// A parsed record.
struct WireRecord {
  bool in_block = false;
  std::span<const std::byte> body;  // Unless in a block.
  BlockDescriptor block;
  uint64_t body_bytes = 0;  // In the block.
};

inline constexpr size_t kWireRecordHeaderBytes = 8;
// The size of the smallest record that can name a block.
inline constexpr size_t kWireRecordLeastBytes =
    kWireRecordHeaderBytes + sizeof(BlockDescriptor) + sizeof(uint64_t);
// The size of a record of form 4.
inline constexpr size_t kWireShortRecordBytes = 56;

// A record of form 4 as the words of its slot.
struct WireWords {
  static constexpr size_t kWords = kWireShortRecordBytes / sizeof(uint64_t);
  static constexpr size_t kBlockWord = 3, kGenerationWord = 4;

  std::array<uint64_t, kWords> words;

  uint64_t generation() const { return words[kGenerationWord]; }
  // Of the block: near for those of one segment.
  uint32_t block() const {
    return std::bit_cast<std::array<uint32_t, 2>>(words[kBlockWord])[1];
  }
  // Whether both are equal but for the generation: then they name the same
  // bytes and describe the same tensor.
  bool IsLike(const WireWords& other) const {
    const auto differ = [&](size_t i) { return words[i] ^ other.words[i]; };
    static_assert(kWords == 7 && kGenerationWord == 4);
    return (differ(0) | differ(1) | differ(2) | differ(3) | differ(5) |
            differ(6)) == 0;
  }
};
static_assert(sizeof(WireWords) == kWireShortRecordBytes);

// Writes such records. Tensors of one sender mostly have one spec: it is
// encoded once.
class WireWordsWriter {
 public:
  // False if the record needs another form.
  [[gnu::always_inline]] bool Write(const BlockDescriptor& block,
                                    const TensorSpec& spec, WireWords& out) {
    if (!IsLast(spec) && !Describe(spec)) [[unlikely]]
      return false;
    if (block.offset != 0 || block.size % kSizeUnit != 0 ||
        block.size / kSizeUnit > std::numeric_limits<uint32_t>::max())
        [[unlikely]] {
      return false;
    }
    using Halves = std::array<uint32_t, 2>;
    out.words = {
        described_[0],
        block.arena.high,
        block.arena.low,
        std::bit_cast<uint64_t>(Halves{block.segment, block.block}),
        block.generation,
        described_[1] | std::bit_cast<uint64_t>(Halves{
                            static_cast<uint32_t>(block.size / kSizeUnit), 0}),
        described_[2]};
    return true;
  }

 private:
  static constexpr uint64_t kSizeUnit = 64;

  bool IsLast(const TensorSpec& spec) const {
    const auto rank = static_cast<size_t>(spec.rank());
    if (rank != rank_ || spec.byte_offset() != 0 ||
        std::bit_cast<uint32_t>(spec.dtype()) != dtype_) {
      return false;
    }
    for (size_t dim = 0; dim < rank; ++dim) {
      if (spec.shape()[dim] != shape_[dim] ||
          spec.strides()[dim] != strides_[dim]) {
        return false;
      }
    }
    return true;
  }
  bool Describe(const TensorSpec& spec);

  // The last spec, if its rank is not kNone, and what a record says of it: its
  // first word, and the last two without the size.
  static constexpr size_t kNone = ~size_t{0};
  size_t rank_ = kNone;
  uint32_t dtype_ = 0;
  std::array<int64_t, TensorSpec::kMaxRank> shape_ = {}, strides_ = {};
  std::array<uint64_t, 3> described_ = {};
};

// Writes a whole record of at least kWireRecordLeastBytes into `out`: a message
// of `body_bytes`, which must fit, or the block that holds it.
void WriteInlineRecord(const TensorWire& wire, size_t body_bytes,
                       std::span<std::byte> out);
void WriteBlockRecord(const BlockDescriptor& block, uint64_t body_bytes,
                      std::span<std::byte> out);

// A message of exactly one dense tensor in a block. Returns the size of the
// record; 0, and nothing is written, if the tensor is not dense, or has too
// many dimensions for `out`, which has at least kWireRecordLeastBytes.
size_t WriteTensorRecord(const BlockDescriptor& block, const TensorSpec& spec,
                         std::span<std::byte> out);

// Such a record, parsed. Records of one sender mostly differ in their blocks
// only: a spec equal to that of the record before is not parsed again.
class WireTensorRecord {
 public:
  // False if the record has another form, is malformed, or its spec does not
  // fit its bytes; then there is no result.
  bool Parse(std::span<const std::byte> record);

  // Of form 4.
  bool is_short() const { return is_short_; }
  const BlockDescriptor& block() const { return block_; }
  // Fits block().size.
  const FittedSpec& spec() const { return spec_; }

 private:
  BlockDescriptor block_;
  FittedSpec spec_;
  bool is_short_ = false;
  bool ParseLong(std::span<const std::byte> record);
  bool ParseShort(std::span<const std::byte> record);
  bool IsLast(std::span<const std::byte> described) const;
  bool Keep(const BlockDescriptor& block, const TensorSpec& spec,
            std::span<const std::byte> described);

  // What described spec_ and the size of its block in the last record; none if
  // it had no result. At most a dtype, rank, offset and extents.
  size_t last_bytes_ = 0;
  std::array<std::byte, 16 + sizeof(int64_t) * TensorSpec::kMaxRank> last_;
};

// All other forms. Errors: kDataLoss naming the malformed part.
absl::StatusOr<WireRecord> ParseWireRecord(std::span<const std::byte> record);

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_WIRE_H_
