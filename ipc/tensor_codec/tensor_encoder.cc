// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_codec/tensor_encoder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/tensor_codec/tensor_copies.h"
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/name_keeper.h"
#include "tenon/shm/segment/shm_name.h"
#include "tenon/shm/tensor/device.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_loan.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

struct CopiedTensor {
  size_t field = 0;
  size_t copy = 0;  // Its number.
};

// The encoding of one message.
class Encoding {
 public:
  Encoding(TensorFds& fds, uint64_t number) : fds_(fds), number_(number) {}
  // Unless its holds have been taken, the message is not sent.
  ~Encoding() { holds_.ReleaseNames(); }
  Encoding(const Encoding&) = delete;
  Encoding& operator=(const Encoding&) = delete;

  absl::Status Add(const TensorMessage& message);
  size_t body_bytes() const { return body_bytes_; }
  bool has_copies() const { return !copied_tensors_.empty(); }
  bool fits(size_t inline_bytes) const {
    return !has_copies() && body_bytes_ <= inline_bytes;
  }
  // The size of the block that holds the message.
  size_t PlaceInBlock() { return copies_.Place(body_bytes_); }
  absl::Status WriteBlock(std::span<std::byte> block);

  const TensorWire& wire() const { return wire_; }
  TensorHolds& holds() { return holds_; }

 private:
  absl::Status Add(const Tensor& tensor);
  absl::Status AddShared(const Tensor& tensor, WireStorage& storage);
  absl::Status AddLoan(const Tensor& tensor, WireStorage& storage);
  bool Keep(const std::shared_ptr<Storage>& storage);
  absl::Status AddCopied(const Tensor& tensor);
  // The number of the storage in the message, and whether it is new.
  std::pair<uint32_t, bool> NumberOf(const void* storage);
  void AddTensor(uint32_t storage, const TensorSpec& spec) {
    wire_.fields.push_back(WireTensor{.storage = storage, .spec = &spec});
  }

  TensorFds& fds_;
  const uint64_t number_;
  TensorWire wire_;
  TensorHolds holds_;
  size_t body_bytes_ = 0;

  // The objects behind wire_.storages: a Storage, null for kEmpty, &copies_ for
  // kHere.
  absl::InlinedVector<const void*, 1> of_storages_;
  // Used if there are many.
  absl::flat_hash_map<const void*, uint32_t> numbers_;
  TensorCopies copies_;
  std::vector<CopiedTensor> copied_tensors_;
};

std::pair<uint32_t, bool> Encoding::NumberOf(const void* storage) {
  constexpr size_t kFew = 8;
  const auto next = static_cast<uint32_t>(of_storages_.size());
  if (next < kFew) {
    const auto found =
        std::find(of_storages_.begin(), of_storages_.end(), storage);
    if (found != of_storages_.end()) {
      return {static_cast<uint32_t>(found - of_storages_.begin()), false};
    }
  } else {
    if (numbers_.empty()) {
      for (uint32_t i = 0; i < next; ++i) numbers_.emplace(of_storages_[i], i);
    }
    const auto [at, is_new] = numbers_.emplace(storage, next);
    if (!is_new) return {at->second, false};
  }
  of_storages_.push_back(storage);
  wire_.storages.emplace_back();
  return {next, true};
}

absl::Status Encoding::Add(const TensorMessage& message) {
  wire_.fields.reserve(message.size());
  for (const TensorMessage::Field& field : message.fields()) {
    if (const auto* tensor = std::get_if<Tensor>(&field)) {
      TENON_RETURN_IF_ERROR(Add(*tensor));
    } else if (const auto* string = std::get_if<std::string>(&field)) {
      wire_.fields.push_back(absl::string_view(string->data(), string->size()));
    } else if (const auto* integer = std::get_if<int64_t>(&field)) {
      wire_.fields.push_back(*integer);
    } else {
      wire_.fields.push_back(std::get<double>(field));
    }
  }
  body_bytes_ = WireBytes(wire_);
  return absl::OkStatus();
}

absl::Status Encoding::Add(const Tensor& tensor) {
  const std::shared_ptr<Storage>& storage = tensor.storage();
  if (storage == nullptr || storage->size_bytes() == 0) {
    AddTensor(NumberOf(nullptr).first, tensor.spec());
    return absl::OkStatus();
  }
  const bool is_lent = !storage->is_shared() && !storage->is_on_cpu();
  if (!storage->is_shared() && !is_lent) return AddCopied(tensor);
  const auto [number, is_new] = NumberOf(storage.get());
  if (is_new) {
    WireStorage& added = wire_.storages[number];
    TENON_RETURN_IF_ERROR(is_lent ? AddLoan(tensor, added)
                                  : AddShared(tensor, added));
    holds_.storages.push_back(storage);
  }
  AddTensor(number, tensor.spec());
  return absl::OkStatus();
}

absl::Status Encoding::AddShared(const Tensor& tensor, WireStorage& storage) {
  if (tensor.storage()->lease() != nullptr) {
    TENON_ASSIGN_OR_RETURN(storage.block, DescribeBlock(tensor));
    storage.location = WireLocation::kBlock;
    return fds_.NeedOffer(storage.block, number_,
                          [&] { return Offer(tensor); });
  }
  TENON_ASSIGN_OR_RETURN(const ExportedTensor exported, Export(tensor));
  storage.location = WireLocation::kSegment;
  // The name belongs to the storage, which outlives this object.
  storage.segment = {.strategy = exported.handle.strategy,
                     .kind = exported.handle.kind,
                     .storage_bytes = exported.handle.storage_bytes,
                     .id = exported.handle.id,
                     .key = 0,
                     .name = tensor.storage()->name()};
  if (exported.fd >= 0) {
    storage.segment.key = fds_.NeedFd(tensor.storage(), number_);
  } else if (Keep(tensor.storage())) {
    storage.segment.key = kKeptName;
  }
  return absl::OkStatus();
}

// The lent storage keeps its loan.
absl::Status Encoding::AddLoan(const Tensor& tensor, WireStorage& storage) {
  TENON_ASSIGN_OR_RETURN(const Tensor loan, LoanOf(tensor));
  TENON_ASSIGN_OR_RETURN(storage.block, DescribeBlock(loan));
  storage.location = WireLocation::kLoan;
  storage.device_type = DeviceType(tensor.device());
  return fds_.NeedOffer(storage.block, number_, [&] { return Offer(loan); });
}

// Whether the process's NameKeeper, if any, holds the storage's name for this
// message. Else this process alone holds it.
bool Encoding::Keep(const std::shared_ptr<Storage>& storage) {
  NameKeeper* const keeper = GetNameKeeper();
  if (keeper == nullptr || !IsMadeShmName(storage->name())) return false;
  holds_.kept.reserve(holds_.kept.size() + 1);  // Before it is to be released.
  if (!keeper->KeepName(storage->name()).ok()) return false;
  holds_.kept.push_back(storage);
  TENON_CRASH_POINT("tensor_codec.name_kept");
  return true;
}

absl::Status Encoding::AddCopied(const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const size_t copy, copies_.Add(tensor));
  copied_tensors_.push_back({.field = wire_.fields.size(), .copy = copy});
  const uint32_t here = NumberOf(&copies_).first;
  wire_.storages[here].location = WireLocation::kHere;
  AddTensor(here, tensor.spec());
  return absl::OkStatus();
}

absl::Status Encoding::WriteBlock(std::span<std::byte> block) {
  // So that the specs do not move.
  wire_.specs.reserve(copied_tensors_.size());
  for (const CopiedTensor& tensor : copied_tensors_) {
    auto& field = std::get<WireTensor>(wire_.fields[tensor.field]);
    TENON_ASSIGN_OR_RETURN(
        wire_.specs.emplace_back(),
        copies_.SpecOf(tensor.copy, *field.spec, block.size()));
    field.spec = &wire_.specs.back();
  }
  TENON_RETURN_IF_ERROR(copies_.Write(block));
  WriteWire(wire_, block.first(body_bytes_));
  return absl::OkStatus();
}

}  // namespace

size_t TensorHolds::bytes() const {
  size_t bytes = block.size();
  for (const auto& storage : storages) bytes += storage->size_bytes();
  return bytes;
}

void TensorHolds::ReleaseNames() {
  NameKeeper* const keeper = GetNameKeeper();
  for (const auto& storage : std::exchange(kept, {})) {
    if (keeper != nullptr) keeper->ReleaseName(storage->name());
  }
}

void TensorHolds::LeaveNames() {
  for (const auto& storage : std::exchange(kept, {})) {
    storage->LeaveNameToLastHolder();
  }
}

std::string TensorEncoder::ArenaName() const {
  return name_.substr(0, kMaxArenaNameLength);
}

absl::StatusOr<Arena*> TensorEncoder::arena() {
  if (arena_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(arena_, Arena::Create({.name = ArenaName()}));
  }
  return arena_.get();
}

absl::StatusOr<Arena*> TensorEncoder::ArenaOfCpu() {
  if (arena_ == nullptr || IsOnCpu(arena_->device())) return arena();
  if (of_cpu_ == nullptr) {
    TENON_ASSIGN_OR_RETURN(of_cpu_, Arena::Create({.name = ArenaName()}));
  }
  return of_cpu_.get();
}

absl::StatusOr<Block> TensorEncoder::Allocate(size_t bytes, Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(Arena* const arena, ArenaOfCpu());
  return arena->Allocate(bytes, deadline);
}

size_t TensorEncoder::EncodeAlone(const Tensor& tensor, uint64_t number,
                                  uint64_t taken, std::span<std::byte> record) {
  const absl::StatusOr<BlockDescriptor> block = DescribeBlock(tensor);
  if (!block.ok()) return 0;
  const size_t bytes = WriteTensorRecord(*block, tensor.spec(), record);
  const bool published =
      bytes != 0 &&
      fds_.NeedOffer(*block, number, [&] { return Offer(tensor); }).ok() &&
      fds_.Publish(number, taken).ok();
  return published ? bytes : 0;
}

absl::StatusOr<TensorHolds> TensorEncoder::Encode(const TensorMessage& message,
                                                  uint64_t number,
                                                  uint64_t taken,
                                                  Deadline deadline,
                                                  std::span<std::byte> record) {
  Encoding encoding(fds_, number);
  TENON_RETURN_IF_ERROR(encoding.Add(message));
  if (encoding.fits(record.size() - kWireRecordHeaderBytes)) {
    TENON_RETURN_IF_ERROR(fds_.Publish(number, taken));
    WriteInlineRecord(encoding.wire(), encoding.body_bytes(), record);
    return std::move(encoding.holds());
  }
  TENON_ASSIGN_OR_RETURN(Block block,
                         Allocate(encoding.PlaceInBlock(), deadline));
  TENON_RETURN_IF_ERROR(encoding.WriteBlock(block.bytes()));
  TENON_ASSIGN_OR_RETURN(const BlockDescriptor where, block.Describe());
  TENON_RETURN_IF_ERROR(fds_.NeedOffer(
      where, number, [&] { return block.arena()->Offer(block); }));
  TENON_RETURN_IF_ERROR(fds_.Publish(number, taken));
  WriteBlockRecord(where, encoding.body_bytes(), record);
  encoding.holds().block = std::move(block);
  return std::move(encoding.holds());
}

absl::StatusOr<std::string> EncodeRecord(const TensorMessage& message,
                                         TensorFdList& fds) {
  constexpr size_t kMaxBytes = std::numeric_limits<uint32_t>::max();
  Encoding encoding(fds, /*number=*/0);
  TENON_RETURN_IF_ERROR(encoding.Add(message));
  if (encoding.has_copies()) {
    return absl::FailedPreconditionError(
        "EncodeRecord(): a tensor is in private memory; copy it into an arena");
  }
  if (!encoding.fits(kMaxBytes) || fds.fds().size() > TensorFdList::kMaxFds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "EncodeRecord(): a message of ", SizeText(encoding.body_bytes()),
        " and ", fds.fds().size(), " descriptors; the limits are ",
        SizeText(kMaxBytes), " and ", TensorFdList::kMaxFds, " descriptors"));
  }
  std::string record(kWireRecordHeaderBytes + encoding.body_bytes(), '\0');
  WriteInlineRecord(encoding.wire(), encoding.body_bytes(),
                    std::as_writable_bytes(std::span(record)));
  encoding.holds().kept.clear();
  return record;
}

}  // namespace tenon
