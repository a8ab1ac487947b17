// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_codec/tensor_decoder.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/name_keeper.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/tensor_loan.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

// Retryable errors are returned unchanged; all others become kDataLoss.
absl::Status AsLoss(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return status;
  return absl::DataLossError(
      absl::StrCat("Get(): a message of tensors is lost: ", status.message()));
}

absl::Status Refuse(absl::string_view why) { return absl::DataLossError(why); }

// Its arena's offer is unknown here, or its attachment was refused.
bool NeedsOffer(const absl::Status& status) {
  return absl::IsNotFound(status) || absl::IsUnavailable(status);
}

}  // namespace

void ReleaseKeptNames(const KeptNames& names) {
  if (names.empty()) return;
  TENON_CRASH_POINT("tensor_codec.names_opened");
  NameKeeper* const keeper = GetNameKeeper();
  if (keeper == nullptr) return;
  for (const std::string& name : names) keeper->ReleaseName(name);
}

// The decoding of one message.
class TensorDecoder::Decoding {
 public:
  Decoding(TensorDecoder& decoder, TensorSource& source, TensorMessage& message,
           KeptNames* kept)
      : decoder_(decoder), source_(source), message_(message), kept_(kept) {}

  absl::Status Decode(std::span<const std::byte> record);
  absl::StatusOr<Tensor> Make(const WireStorage& from, const WireTensor& tensor,
                              const std::shared_ptr<Storage>& storage);

 private:
  absl::Status DecodeBody(std::span<const std::byte> body);
  absl::StatusOr<std::span<const std::byte>> ClaimBody(
      const WireRecord& record);

  TensorDecoder& decoder_;
  TensorSource& source_;
  TensorMessage& message_;
  KeptNames* const kept_;
  std::shared_ptr<Storage> here_;  // The block that holds the body.
};

absl::Status TensorDecoder::Decoding::Decode(std::span<const std::byte> bytes) {
  TENON_ASSIGN_OR_RETURN(const WireRecord record, ParseWireRecord(bytes));
  if (!record.in_block) return DecodeBody(record.body);
  TENON_ASSIGN_OR_RETURN(const auto body, ClaimBody(record));
  return DecodeBody(body);
}

absl::StatusOr<std::span<const std::byte>> TensorDecoder::Decoding::ClaimBody(
    const WireRecord& record) {
  // Specs of more than 2^63-1 bytes fail here.
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec spec,
      TensorSpec::Contiguous(kDtypeOf<uint8_t>,
                             {static_cast<int64_t>(record.body_bytes)}));
  TENON_ASSIGN_OR_RETURN(const Tensor body,
                         decoder_.Claim(record.block, spec, source_));
  here_ = body.storage();
  TENON_ASSIGN_OR_RETURN(const auto bytes, body.data<const std::byte>());
  return std::span<const std::byte>(bytes.data(), bytes.size());
}

absl::Status TensorDecoder::Decoding::DecodeBody(
    std::span<const std::byte> body) {
  TensorWire wire;
  TENON_RETURN_IF_ERROR(ParseWire(body, &wire));
  absl::InlinedVector<std::shared_ptr<Storage>, 1> storages(
      wire.storages.size());
  message_.Reserve(wire.fields.size());
  for (const WireField& field : wire.fields) {
    if (const auto* tensor = std::get_if<WireTensor>(&field)) {
      std::shared_ptr<Storage>& storage = storages[tensor->storage];
      absl::StatusOr<Tensor> made =
          Make(wire.storages[tensor->storage], *tensor, storage);
      if (!made.ok()) return std::move(made).status();
      if (storage == nullptr) storage = made->storage();
      message_.Add(*std::move(made));
    } else if (const auto* string = std::get_if<absl::string_view>(&field)) {
      message_.Add(*string);
    } else if (const auto* integer = std::get_if<int64_t>(&field)) {
      message_.Add(*integer);
    } else {
      message_.Add(std::get<double>(field));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorDecoder::Decoding::Make(
    const WireStorage& from, const WireTensor& tensor,
    const std::shared_ptr<Storage>& storage) {
  if (storage != nullptr) return Tensor::FromSpec(*tensor.spec, storage);
  switch (from.location) {
    case WireLocation::kBlock:
      return decoder_.Claim(from.block, *tensor.spec, source_);
    case WireLocation::kSegment:
      return decoder_.Import(from.segment, *tensor.spec, source_, kept_);
    case WireLocation::kLoan:
      return decoder_.Borrow(from, *tensor.spec, source_);
    case WireLocation::kHere:
      if (here_ == nullptr) break;
      return Tensor::FromSpec(*tensor.spec, here_);
    case WireLocation::kEmpty: {
      TENON_ASSIGN_OR_RETURN(
          auto empty, Storage::CreateShared(0, SegmentKind::kSharedWritable));
      return Tensor::FromSpec(*tensor.spec, std::move(empty));
    }
  }
  return Refuse(
      "malformed tensor message: a tensor is in the body's block, but the body "
      "is inline");
}

absl::Status TensorDecoder::Decode(std::span<const std::byte> record,
                                   TensorSource& source, TensorMessage* message,
                                   KeptNames* kept) {
  if (alone_.Parse(record)) [[likely]] {
    absl::StatusOr<std::shared_ptr<Storage>> storage =
        ClaimAlone(record, source);
    if (!storage.ok()) return AsLoss(storage.status());
    message->Add(Tensor(alone_.spec(), *std::move(storage)));
    return absl::OkStatus();
  }
  const absl::Status status =
      Decoding(*this, source, *message, kept).Decode(record);
  if (status.ok()) return status;
  *message = TensorMessage();
  return AsLoss(status);
}

absl::Status TensorDecoder::Decode(std::span<const std::byte> record,
                                   TensorSource& source, Tensor* tensor,
                                   KeptNames* kept) {
  if (alone_.Parse(record)) [[likely]] {
    absl::StatusOr<std::shared_ptr<Storage>> storage =
        ClaimAlone(record, source);
    if (!storage.ok()) return AsLoss(storage.status());
    *tensor = Tensor(alone_.spec(), *std::move(storage));
    return absl::OkStatus();
  }
  TensorMessage message;
  TENON_RETURN_IF_ERROR(Decode(record, source, &message, kept));
  absl::StatusOr<Tensor> only = message.tensor(0);
  if (message.size() != 1 || !only.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "GetTensor(): the next message has ", message.size(),
        " fields; want exactly one tensor; receive it with Get()"));
  }
  *tensor = *std::move(only);
  return absl::OkStatus();
}

// Claims the block of alone_, the parsed `record`. One of form 4 is kept for
// ClaimLike().
absl::StatusOr<std::shared_ptr<Storage>> TensorDecoder::ClaimAlone(
    std::span<const std::byte> record, TensorSource& source) {
  Seen seen;
  if (!alone_.is_short()) return Claim(alone_.block(), source);
  absl::StatusOr<std::shared_ptr<Storage>> storage =
      Claim(alone_.block(), source, &seen.block);
  if (!storage.ok()) return storage;
  std::memcpy(&seen.record, record.data(), sizeof(seen.record));
  seen.spec = alone_.spec();
  if (seen_ == nullptr) seen_ = std::make_unique<std::array<Seen, kSeen>>();
  (*seen_)[seen.record.block() % kSeen] = seen;
  return storage;
}

absl::StatusOr<std::vector<absl::StatusOr<Tensor>>> TensorDecoder::DecodeEach(
    std::span<const std::byte> bytes, TensorSource& source) {
  TENON_ASSIGN_OR_RETURN(const WireRecord record, ParseWireRecord(bytes));
  TensorWire wire;
  TENON_RETURN_IF_ERROR(ParseWire(record.body, &wire));
  TensorMessage none;
  Decoding decoding(*this, source, none, nullptr);
  // A storage, or why it cannot be had now: its descriptor is gone by then.
  struct Opened {
    std::shared_ptr<Storage> storage;
    absl::Status failure;
  };
  std::vector<Opened> storages(wire.storages.size());
  std::vector<absl::StatusOr<Tensor>> tensors;
  for (const WireField& field : wire.fields) {
    const auto* tensor = std::get_if<WireTensor>(&field);
    if (tensor == nullptr) {
      return Refuse("malformed tensor message: a field is not a tensor");
    }
    Opened& opened = storages[tensor->storage];
    if (!opened.failure.ok()) {
      tensors.emplace_back(opened.failure);
      continue;
    }
    const auto& made = tensors.emplace_back(
        decoding.Make(wire.storages[tensor->storage], *tensor, opened.storage));
    if (made.ok()) {
      opened.storage = made->storage();
    } else if (absl::IsResourceExhausted(made.status())) {
      opened.failure = made.status();
    }
  }
  return tensors;
}

absl::StatusOr<std::shared_ptr<Storage>> TensorDecoder::Claim(
    const BlockDescriptor& block, TensorSource& source, KeptBlock* kept) {
  absl::StatusOr<std::shared_ptr<Storage>> storage =
      arenas_.ClaimBlock(block, kept);
  if (storage.ok() || !NeedsOffer(storage.status())) [[likely]]
    return storage;
  return AttachAndClaim(block, source);
}

absl::StatusOr<Tensor> TensorDecoder::Claim(const BlockDescriptor& block,
                                            const TensorSpec& spec,
                                            TensorSource& source) {
  TENON_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage,
                         Claim(block, source));
  return Tensor::FromSpec(spec, std::move(storage));
}

absl::StatusOr<std::shared_ptr<Storage>> TensorDecoder::AttachAndClaim(
    const BlockDescriptor& block, TensorSource& source) {
  const auto attach = [&]() -> absl::StatusOr<std::shared_ptr<Storage>> {
    TENON_ASSIGN_OR_RETURN(Message offer,
                           source.Get([&](const ReceivedTensorFds& item) {
                             return item.OfferOf(block);
                           }));
    return arenas_.AcceptAndClaim(offer.bytes, std::move(offer.fds), block);
  };
  for (;;) {
    absl::StatusOr<std::shared_ptr<Storage>> storage = attach();
    // Arenas hold descriptors; the importer enforces its own limits.
    if (!IsLackOfDescriptors(storage.status()) || !arenas_.ForgetOldestIdle()) {
      return storage;
    }
  }
}

absl::StatusOr<Tensor> TensorDecoder::Borrow(const WireStorage& loan,
                                             const TensorSpec& spec,
                                             TensorSource& source) {
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec bytes,
      TensorSpec::Contiguous(kDtypeOf<uint8_t>,
                             {static_cast<int64_t>(loan.block.size)}));
  TENON_ASSIGN_OR_RETURN(const Tensor claimed,
                         Claim(loan.block, bytes, source));
  return FromLoan(claimed, loan.device_type, spec);
}

absl::StatusOr<Tensor> TensorDecoder::Import(const WireSegment& segment,
                                             const TensorSpec& spec,
                                             TensorSource& source,
                                             KeptNames* kept) {
  TensorHandle handle = {.magic = TensorHandle::kMagic,
                         .version = TensorHandle::kVersion,
                         .strategy = segment.strategy,
                         .kind = segment.kind,
                         .storage_bytes = segment.storage_bytes,
                         .id = segment.id,
                         .spec = spec,
                         .name = {}};
  if (segment.name.size() >= sizeof(handle.name)) {
    return Refuse(
        "malformed tensor message: the name of a segment is too long");
  }
  segment.name.copy(handle.name, sizeof(handle.name) - 1);
  TENON_RETURN_IF_ERROR(handle.Check());
  UniqueFd fd;
  if (handle.has_segment() &&
      handle.segment_strategy() == SharingStrategy::kFileDescriptor) {
    TENON_ASSIGN_OR_RETURN(fd, source.Get([&](ReceivedTensorFds& item) {
      return item.FdOf(segment.key);
    }));
  }
  absl::StatusOr<Tensor> tensor = segments_.Import(handle, std::move(fd));
  if (handle.has_segment() &&
      handle.segment_strategy() == SharingStrategy::kFileSystem &&
      segment.key == kKeptName && tensor.ok()) {
    // This process is a holder now, and removes the name if it is the last one.
    tensor->storage()->LeaveNameToLastHolder();
    if (kept != nullptr) kept->emplace_back(segment.name);
  }
  return tensor;
}

}  // namespace tenon
