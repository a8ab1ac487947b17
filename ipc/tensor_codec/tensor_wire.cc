// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_codec/tensor_wire.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/carried_version.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

constexpr uint16_t kMagic = 0x5154;  // "TQ" on x86.
// The version that this build reads and writes. A record of another one is lost
// where it is refused: raise QueueVersion() with it.
uint8_t RecordVersion() { return static_cast<uint8_t>(CarriedVersion(2)); }
constexpr uint8_t kInline = 1;
constexpr uint8_t kInBlock = 2;
constexpr uint8_t kOneTensor = 3;
constexpr uint8_t kShort = 4;

struct RecordHeader {
  uint16_t magic = kMagic;
  uint8_t version = RecordVersion();
  uint8_t form = 0;
  uint32_t bytes = 0;  // Of the payload.
};
static_assert(sizeof(RecordHeader) == kWireRecordHeaderBytes);

// A record of form kShort.
struct ShortRecord {
  static constexpr size_t kMaxExtentBytes = 11;

  uint16_t magic = kMagic;
  uint8_t version = RecordVersion();
  uint8_t form = kShort;
  DLDataType dtype;
  RandomId arena;
  uint32_t segment = 0;
  uint32_t block = 0;
  uint64_t generation = 0;
  uint32_t size_by_64 = 0;
  uint8_t rank = 0;
  uint8_t extents[kMaxExtentBytes] = {};
};
static_assert(sizeof(ShortRecord) == kWireShortRecordBytes);
static_assert(std::has_unique_object_representations_v<ShortRecord>);
// What describes the tensor, other than its dtype.
constexpr size_t kShortShapeAt = offsetof(ShortRecord, size_by_64);
constexpr size_t kShortShapeBytes = sizeof(ShortRecord) - kShortShapeAt;

constexpr uint8_t kInteger = 1;
constexpr uint8_t kNumber = 2;
constexpr uint8_t kString = 3;
constexpr uint8_t kTensor = 4;
constexpr uint8_t kDenseTensor = 5;

// Including its type byte. A storage has at least one byte.
constexpr size_t kLeastFieldBytes = 9;

// The bytes of a spec, by its layout: dtype, rank, offset, then the extents,
// then the strides, room for kMaxRank of each.
using SpecBytes = std::array<std::byte, sizeof(TensorSpec)>;
constexpr size_t kRankAt = 4;
constexpr size_t kShapeAt = 16;
constexpr size_t kStridesAt = kShapeAt + 8 * TensorSpec::kMaxRank;

// Sets the strides of a dense tensor, row-major. The extents may be anything.
void SetDenseStrides(SpecBytes& bytes, size_t rank) {
  uint64_t stride = 1;
  for (size_t dim = rank; dim-- > 0;) {
    std::memcpy(bytes.data() + kStridesAt + 8 * dim, &stride, sizeof(stride));
    uint64_t extent;
    std::memcpy(&extent, bytes.data() + kShapeAt + 8 * dim, sizeof(extent));
    if (extent != 0) stride *= extent;
  }
}

// Whether the strides can be omitted.
bool HasDenseStrides(const TensorSpec& spec) {
  uint64_t stride = 1;
  for (auto dim = static_cast<size_t>(spec.rank()); dim-- > 0;) {
    if (static_cast<uint64_t>(spec.strides()[dim]) != stride) return false;
    const auto extent = static_cast<uint64_t>(spec.shape()[dim]);
    if (extent != 0) stride *= extent;
  }
  return true;
}

size_t SpecWireBytes(const TensorSpec& spec) {
  return kShapeAt +
         (HasDenseStrides(spec) ? 8 : 16) * static_cast<size_t>(spec.rank());
}

absl::Status Refuse(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("malformed tensor message: ", why));
}

bool HasBlock(const WireStorage& storage) {
  return storage.location == WireLocation::kBlock ||
         storage.location == WireLocation::kLoan;
}

// ---- Writing: the caller has checked that there is room. ----

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : at_(out.data()) {}

  template <typename T>
  void Put(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    Bytes(&value, sizeof(value));
  }
  void Bytes(const void* from, size_t size) {
    if (size != 0) std::memcpy(at_, from, size);
    at_ += size;
  }

  void Put(const WireStorage& storage);
  void Put(const WireField& field);
  // Writes the header of a record.
  void PutRecord(uint8_t form, size_t bytes) {
    Put(RecordHeader{.form = form, .bytes = static_cast<uint32_t>(bytes)});
  }

 private:
  void Put(const WireTensor& tensor);

  std::byte* at_;
};

void Writer::Put(const WireStorage& storage) {
  Put(static_cast<uint8_t>(storage.location));
  if (storage.location == WireLocation::kLoan) Put(storage.device_type);
  if (HasBlock(storage)) return Put(storage.block);
  if (storage.location != WireLocation::kSegment) return;
  const WireSegment& segment = storage.segment;
  Put(static_cast<uint8_t>(segment.strategy));
  Put(static_cast<uint8_t>(segment.kind));
  Put(segment.storage_bytes);
  Put(segment.id.device);
  Put(segment.id.inode);
  Put(segment.key);
  Put(static_cast<uint8_t>(segment.name.size()));
  Bytes(segment.name.data(), segment.name.size());
}

void Writer::Put(const WireTensor& tensor) {
  const auto* bytes = reinterpret_cast<const std::byte*>(tensor.spec);
  const auto rank = static_cast<size_t>(tensor.spec->rank());
  const bool dense = HasDenseStrides(*tensor.spec);
  Put(dense ? kDenseTensor : kTensor);
  Put(tensor.storage);
  Bytes(bytes, kShapeAt + 8 * rank);
  if (!dense) Bytes(bytes + kStridesAt, 8 * rank);
}

void Writer::Put(const WireField& field) {
  if (const auto* tensor = std::get_if<WireTensor>(&field)) return Put(*tensor);
  if (const auto* integer = std::get_if<int64_t>(&field)) {
    Put(kInteger);
    Put(*integer);
  } else if (const auto* number = std::get_if<double>(&field)) {
    Put(kNumber);
    Put(*number);
  } else {
    const auto& string = std::get<absl::string_view>(field);
    Put(kString);
    Put(uint64_t{string.size()});
    Bytes(string.data(), string.size());
  }
}

size_t StorageBytes(const WireStorage& storage) {
  if (HasBlock(storage)) {
    return 1 + sizeof(BlockDescriptor) +
           (storage.location == WireLocation::kLoan ? sizeof(uint32_t) : 0);
  }
  if (storage.location != WireLocation::kSegment) return 1;
  return 1 + 2 + 4 * sizeof(uint64_t) + 1 + storage.segment.name.size();
}

size_t FieldBytes(const WireField& field) {
  if (const auto* tensor = std::get_if<WireTensor>(&field)) {
    return 1 + sizeof(tensor->storage) + SpecWireBytes(*tensor->spec);
  }
  const auto* string = std::get_if<absl::string_view>(&field);
  return 1 + sizeof(uint64_t) + (string == nullptr ? 0 : string->size());
}

// ---- Reading: false if bytes are missing. ----

class Reader {
 public:
  explicit Reader(std::span<const std::byte> left) : left_(left) {}

  size_t left() const { return left_.size(); }

  template <typename T>
  bool Get(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return Bytes(&value, sizeof(value));
  }
  bool Bytes(void* to, size_t size) {
    if (size > left_.size()) return false;
    std::memcpy(to, left_.data(), size);
    left_ = left_.subspan(size);
    return true;
  }
  bool String(uint64_t size, absl::string_view& to) {
    if (size > left_.size()) return false;
    to = {reinterpret_cast<const char*>(left_.data()),
          static_cast<size_t>(size)};
    left_ = left_.subspan(static_cast<size_t>(size));
    return true;
  }

 private:
  std::span<const std::byte> left_;
};

bool Read(Reader& from, WireSegment& segment) {
  uint8_t length = 0;
  return from.Get(segment.strategy) && from.Get(segment.kind) &&
         from.Get(segment.storage_bytes) && from.Get(segment.id.device) &&
         from.Get(segment.id.inode) && from.Get(segment.key) &&
         from.Get(length) && from.String(length, segment.name);
}

bool Read(Reader& from, WireStorage& storage) {
  if (!from.Get(storage.location)) return false;
  switch (storage.location) {
    case WireLocation::kEmpty:
    case WireLocation::kHere:
      return true;
    case WireLocation::kBlock:
      return from.Get(storage.block);
    case WireLocation::kSegment:
      return Read(from, storage.segment);
    case WireLocation::kLoan:
      return from.Get(storage.device_type) && from.Get(storage.block);
  }
  return false;
}

bool Read(Reader& from, bool dense, TensorSpec& spec) {
  SpecBytes bytes = {};
  if (!from.Bytes(bytes.data(), kShapeAt)) return false;
  int32_t signed_rank;
  std::memcpy(&signed_rank, bytes.data() + kRankAt, sizeof(signed_rank));
  if (signed_rank < 0 || signed_rank > TensorSpec::kMaxRank) return false;
  const auto rank = static_cast<size_t>(signed_rank);
  if (!from.Bytes(bytes.data() + kShapeAt, 8 * rank)) return false;
  if (dense) {
    SetDenseStrides(bytes, rank);
  } else if (!from.Bytes(bytes.data() + kStridesAt, 8 * rank)) {
    return false;
  }
  spec = std::bit_cast<TensorSpec>(bytes);
  // Each spec has exactly one encoding.
  return dense || !HasDenseStrides(spec);
}

bool Read(Reader& from, bool dense, TensorWire& wire, WireTensor& tensor) {
  if (!from.Get(tensor.storage) || tensor.storage >= wire.storages.size()) {
    return false;
  }
  tensor.spec = &wire.specs.emplace_back();
  return Read(from, dense, wire.specs.back());
}

bool Read(Reader& from, TensorWire& wire, WireField& field) {
  uint8_t kind = 0;
  if (!from.Get(kind)) return false;
  switch (kind) {
    case kInteger:
      return from.Get(field.emplace<int64_t>());
    case kNumber:
      return from.Get(field.emplace<double>());
    case kString: {
      uint64_t size = 0;
      return from.Get(size) &&
             from.String(size, field.emplace<absl::string_view>());
    }
    case kTensor:
    case kDenseTensor:
      return Read(from, kind == kDenseTensor, wire,
                  field.emplace<WireTensor>());
    default:
      return false;
  }
}

}  // namespace

size_t WireBytes(const TensorWire& wire) {
  size_t bytes = 2 * sizeof(uint32_t);
  for (const WireStorage& storage : wire.storages) {
    bytes += StorageBytes(storage);
  }
  for (const WireField& field : wire.fields) bytes += FieldBytes(field);
  return bytes;
}

void WriteWire(const TensorWire& wire, std::span<std::byte> out) {
  Writer writer(out);
  writer.Put(static_cast<uint32_t>(wire.storages.size()));
  writer.Put(static_cast<uint32_t>(wire.fields.size()));
  for (const WireStorage& storage : wire.storages) writer.Put(storage);
  for (const WireField& field : wire.fields) writer.Put(field);
}

absl::Status ParseWire(std::span<const std::byte> body, TensorWire* wire) {
  Reader reader(body);
  uint32_t storages = 0, fields = 0;
  if (!reader.Get(storages) || !reader.Get(fields)) {
    return Refuse(
        absl::StrCat("body of ", SizeText(body.size()), "; want at least 8"));
  }
  if (storages + fields * uint64_t{kLeastFieldBytes} > reader.left()) {
    return Refuse(absl::StrCat(storages, " storages and ", fields,
                               " fields do not fit in ",
                               SizeText(reader.left())));
  }
  wire->storages.resize(storages);
  for (uint32_t i = 0; i < storages; ++i) {
    if (!Read(reader, wire->storages[i])) {
      return Refuse(
          absl::StrCat("storage ", i, " of ", storages, " is invalid"));
    }
  }
  wire->fields.reserve(fields);
  wire->specs.reserve(fields);  // Pointers into it must stay valid.
  for (uint32_t i = 0; i < fields; ++i) {
    if (!Read(reader, *wire, wire->fields.emplace_back())) {
      return Refuse(absl::StrCat("field ", i, " of ", fields, " is invalid"));
    }
  }
  if (reader.left() == 0) return absl::OkStatus();
  return Refuse(absl::StrCat(SizeText(reader.left()), " are left over"));
}

void WriteInlineRecord(const TensorWire& wire, size_t body_bytes,
                       std::span<std::byte> out) {
  Writer(out).PutRecord(kInline, body_bytes);
  WriteWire(wire, out.subspan(kWireRecordHeaderBytes, body_bytes));
}

void WriteBlockRecord(const BlockDescriptor& block, uint64_t body_bytes,
                      std::span<std::byte> out) {
  Writer writer(out);
  writer.PutRecord(kInBlock, kWireRecordLeastBytes - kWireRecordHeaderBytes);
  writer.Put(block);
  writer.Put(body_bytes);
}

namespace {

// False if they need more bytes than there are.
bool WriteExtents(absl::Span<const int64_t> shape, ShortRecord& record) {
  size_t at = 0;
  for (const int64_t extent : shape) {
    auto rest = static_cast<uint64_t>(extent);
    for (;; rest >>= 7) {
      if (at == ShortRecord::kMaxExtentBytes) return false;
      const bool is_last = rest < 0x80;
      record.extents[at++] =
          static_cast<uint8_t>((rest & 0x7f) | (is_last ? 0 : 0x80));
      if (is_last) break;
    }
  }
  return true;
}

// False unless the bytes are those that WriteExtents() writes.
bool ReadExtents(const ShortRecord& record, SpecBytes& spec) {
  if (record.rank > TensorSpec::kMaxRank) return false;
  size_t at = 0;
  for (size_t dim = 0; dim < record.rank; ++dim) {
    uint64_t extent = 0;
    for (int shift = 0;; shift += 7) {
      if (at == ShortRecord::kMaxExtentBytes || shift > 56) return false;
      const uint8_t byte = record.extents[at++];
      extent |= uint64_t{byte & 0x7fu} << shift;
      if ((byte & 0x80) == 0) {
        if (byte == 0 && shift != 0) return false;  // A longer form.
        break;
      }
    }
    std::memcpy(spec.data() + kShapeAt + 8 * dim, &extent, sizeof(extent));
  }
  return std::all_of(record.extents + at,
                     record.extents + ShortRecord::kMaxExtentBytes,
                     [](uint8_t byte) { return byte == 0; });
}

}  // namespace

// Where Write() puts the words.
static_assert(offsetof(ShortRecord, arena) == 8);
static_assert(offsetof(ShortRecord, block) == 28);
static_assert(offsetof(ShortRecord, generation) ==
              8 * WireWords::kGenerationWord);
static_assert(kShortShapeAt == 40);

bool WireWordsWriter::Describe(const TensorSpec& spec) {
  ShortRecord record = {.dtype = spec.dtype(),
                        .arena = {},
                        .rank = static_cast<uint8_t>(spec.rank())};
  if (spec.byte_offset() != 0 || !HasDenseStrides(spec) ||
      !WriteExtents(spec.shape(), record)) {
    return false;
  }
  const auto words = std::bit_cast<WireWords>(record).words;
  rank_ = static_cast<size_t>(spec.rank());
  dtype_ = std::bit_cast<uint32_t>(spec.dtype());
  std::copy(spec.shape().begin(), spec.shape().end(), shape_.begin());
  std::copy(spec.strides().begin(), spec.strides().end(), strides_.begin());
  described_ = {words[0], words[5], words[6]};
  return true;
}

size_t WriteTensorRecord(const BlockDescriptor& block, const TensorSpec& spec,
                         std::span<std::byte> out) {
  if (!HasDenseStrides(spec)) return 0;
  WireWords words;
  if (WireWordsWriter().Write(block, spec, words)) {
    std::memcpy(out.data(), &words, sizeof(words));
    return sizeof(words);
  }
  const size_t spec_bytes =
      kShapeAt + sizeof(int64_t) * static_cast<size_t>(spec.rank());
  const size_t bytes = sizeof(block) + spec_bytes;
  if (kWireRecordHeaderBytes + bytes > out.size()) return 0;
  Writer writer(out);
  writer.PutRecord(kOneTensor, bytes);
  writer.Put(block);
  writer.Bytes(&spec, spec_bytes);
  return kWireRecordHeaderBytes + bytes;
}

bool WireTensorRecord::Parse(std::span<const std::byte> record) {
  RecordHeader header;
  const bool good =
      Reader(record).Get(header) && header.magic == kMagic &&
      header.version == RecordVersion() &&
      (header.form == kShort ? ParseShort(record)
                             : header.form == kOneTensor && ParseLong(record));
  if (!good) last_bytes_ = 0;
  is_short_ = header.form == kShort;
  return good;
}

bool WireTensorRecord::IsLast(std::span<const std::byte> described) const {
  return last_bytes_ != 0 && described.size() == last_bytes_ &&
         std::memcmp(described.data(), last_.data(), last_bytes_) == 0;
}

bool WireTensorRecord::Keep(const BlockDescriptor& block,
                            const TensorSpec& spec,
                            std::span<const std::byte> described) {
  absl::StatusOr<FittedSpec> fitted = FittedSpec::Check(spec, block.size);
  if (!fitted.ok() || described.size() > last_.size()) return false;
  block_ = block;
  spec_ = *fitted;
  last_bytes_ = described.size();
  std::memcpy(last_.data(), described.data(), described.size());
  return true;
}

bool WireTensorRecord::ParseShort(std::span<const std::byte> record) {
  ShortRecord found;
  if (record.size() < sizeof(found)) return false;
  std::memcpy(&found, record.data(), sizeof(found));
  const BlockDescriptor block = {.arena = found.arena,
                                 .segment = found.segment,
                                 .block = found.block,
                                 .generation = found.generation,
                                 .offset = 0,
                                 .size = uint64_t{found.size_by_64} * 64};
  // The dtype, and what describes the shape and the size.
  std::array<std::byte, sizeof(DLDataType) + kShortShapeBytes> described;
  std::memcpy(described.data(), &found.dtype, sizeof(found.dtype));
  std::memcpy(described.data() + sizeof(found.dtype),
              record.data() + kShortShapeAt, kShortShapeBytes);
  if (IsLast(described)) [[likely]] {
    block_ = block;
    return true;
  }
  SpecBytes bytes = {};
  const int32_t rank = found.rank;
  std::memcpy(bytes.data(), &found.dtype, sizeof(found.dtype));
  std::memcpy(bytes.data() + kRankAt, &rank, sizeof(rank));
  if (!ReadExtents(found, bytes)) return false;
  SetDenseStrides(bytes, found.rank);
  return Keep(block, std::bit_cast<TensorSpec>(bytes), described);
}

bool WireTensorRecord::ParseLong(std::span<const std::byte> record) {
  Reader reader(record);
  RecordHeader header;
  BlockDescriptor block;
  if (!reader.Get(header) || header.bytes > reader.left() ||
      header.bytes < sizeof(block) || !reader.Get(block)) {
    return false;
  }
  const auto described = record.subspan(sizeof(header) + sizeof(block),
                                        header.bytes - sizeof(block));
  if (block.size == block_.size && IsLast(described)) {
    block_ = block;
    return true;
  }
  TensorSpec spec;
  Reader rest(described);
  return Read(rest, true, spec) && rest.left() == 0 &&
         Keep(block, spec, described);
}

absl::StatusOr<WireRecord> ParseWireRecord(std::span<const std::byte> record) {
  Reader reader(record);
  RecordHeader header;
  if (!reader.Get(header) || header.magic != kMagic ||
      (header.form != kShort && header.bytes > reader.left())) {
    return Refuse(absl::StrCat(
        "bad record header: magic 0x", absl::Hex(header.magic), ", ",
        SizeText(header.bytes), " in a record of ", SizeText(record.size())));
  }
  if (header.version != RecordVersion()) {
    return Refuse(absl::StrCat("record version ", header.version,
                               "; this build of Tenon has version ",
                               RecordVersion()));
  }
  if (header.form == kOneTensor || header.form == kShort) {
    return Refuse(
        "a record of one tensor, of which the spec is malformed or "
        "does not fit the block");
  }
  WireRecord found;
  if (header.form == kInline) {
    found.body = record.subspan(kWireRecordHeaderBytes, header.bytes);
    return found;
  }
  found.in_block = true;
  if (header.form != kInBlock ||
      header.bytes != kWireRecordLeastBytes - kWireRecordHeaderBytes ||
      !reader.Get(found.block) || !reader.Get(found.body_bytes)) {
    return Refuse(
        absl::StrCat("record form ", header.form,
                     " is unknown or its block descriptor is malformed"));
  }
  return found;
}

}  // namespace tenon
