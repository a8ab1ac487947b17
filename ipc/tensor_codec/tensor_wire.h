// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a TensorMessage is as bytes, and the record of a queue that carries it.
// Internal to tensor queues.
//
// A record, of a fixed size:
//
//   0       2         3      4       8
//   | magic | version | form | bytes | `bytes` bytes, then anything
//
//   form 1: the body of the message
//   form 2: a BlockDescriptor and, in 64 bits, how many bytes of the body are
//           at the beginning of that block
//   form 3: a BlockDescriptor and a dense TensorSpec, as in a body: a message
//           of that one tensor, the most frequent one
//
// A body, without any padding, in the machine's own byte order:
//
//   u32 storages, u32 fields, then each storage, then each field:
//   a storage is a byte that says where it is (WirePlace), and
//     kBlock:    a BlockDescriptor
//     kSegment:  u8 strategy, u8 kind, u64 bytes, u64 device, u64 inode,
//                u64 key, u8 length and name
//   a field is a byte that says what it is, and
//     1: i64    2: double    3: u64 length and string
//     4: u32 number of its storage, and a TensorSpec without what lies beyond
//        its rank; 5: and without strides, as it is dense
//
// Two tensors of one storage are so at the other end, too: they name the same
// one of the body's storages.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_WIRE_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_WIRE_H_

#include <cstddef>
#include <cstdint>
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

enum class WirePlace : uint8_t {
  kEmpty = 0,    // There are no bytes.
  kHere = 1,     // In the block that the body lies in.
  kBlock = 2,    // In a block of an arena.
  kSegment = 3,  // In a segment of its own.
};

// As a TensorHandle without its spec.
struct WireSegment {
  TensorHandle::Strategy strategy = TensorHandle::Strategy::kFileDescriptor;
  TensorHandle::Kind kind = TensorHandle::Kind::kSharedWritable;
  uint64_t storage_bytes = 0;
  Storage::Id id;
  uint64_t key = 0;        // Of the descriptor, on the sender's shelf.
  absl::string_view name;  // Up to 255 bytes.
};

struct WireStorage {
  WirePlace place = WirePlace::kEmpty;
  BlockDescriptor block;  // Of kBlock.
  WireSegment segment;    // Of kSegment.
};

struct WireTensor {
  uint32_t storage = 0;
  const TensorSpec* spec = nullptr;
};

using WireField = std::variant<int64_t, double, absl::string_view, WireTensor>;

// Ownership: strings and specs are those of whoever made it, or of the bytes it
//   was read from, and of `specs`.
struct TensorWire {
  TensorWire() = default;
  TensorWire(const TensorWire&) = delete;
  TensorWire& operator=(const TensorWire&) = delete;

  absl::InlinedVector<WireStorage, 1> storages;
  absl::InlinedVector<WireField, 1> fields;
  absl::InlinedVector<TensorSpec, 1> specs;
};

// The size of a body, and the body itself into `out`, which has that size.
size_t WireBytes(const TensorWire& wire);
void WriteWire(const TensorWire& wire, std::span<std::byte> out);

// Trust: the bytes may be anything. What comes out is a body that WriteWire()
//   writes as it was; its specs and handles are not checked yet. Nothing is
//   allocated but some 200 times what is there.
// Errors: kDataLoss saying what does not fit.
absl::Status ParseWire(std::span<const std::byte> body, TensorWire* wire);

// A record that was read.
struct WireRecord {
  bool in_block = false;
  std::span<const std::byte> body;  // Unless in a block.
  BlockDescriptor block;
  uint64_t body_bytes = 0;  // In the block.
};

inline constexpr size_t kWireRecordHeaderBytes = 8;
// What a record needs that names a block.
inline constexpr size_t kWireRecordLeastBytes =
    kWireRecordHeaderBytes + sizeof(BlockDescriptor) + sizeof(uint64_t);

// Into `out`, a whole record, of kWireRecordLeastBytes at least: a message of
// `body_bytes`, for which there is room, or where it is.
void WriteInlineRecord(const TensorWire& wire, size_t body_bytes,
                       std::span<std::byte> out);
void WriteBlockRecord(const BlockDescriptor& block, uint64_t body_bytes,
                      std::span<std::byte> out);

// A message of nothing but one dense tensor that lies in a block. False, and
// nothing is written, if it is not dense, or has too many dimensions for `out`.
bool WriteTensorRecord(const BlockDescriptor& block, const TensorSpec& spec,
                       std::span<std::byte> out);
struct WireTensorRecord {
  BlockDescriptor block;
  TensorSpec spec;  // Not checked yet.
};
// False if it is no such record, or a broken one.
bool ParseTensorRecord(std::span<const std::byte> record,
                       WireTensorRecord* found);

// All others. Errors: kDataLoss saying what does not fit.
absl::StatusOr<WireRecord> ParseWireRecord(std::span<const std::byte> record);

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_WIRE_H_
