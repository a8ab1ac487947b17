// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/tensor_parcel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/tensor_codec/tensor_decoder.h"
#include "tenon/ipc/tensor_codec/tensor_encoder.h"
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/segment/name_keeper.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/hold_until_closed.h"

// A parcel: the record and the list of its descriptors, as strings, and the
// number of the descriptors, of which a receipt is the last.

namespace tenon::spawn {
namespace {

// A descriptor needs no receipt. A name does only where a NameKeeper removes it
// if this process ends without having removed it. Memory of a device in no pool
// keeps its loan.
bool NeedsReceipt(const Storage& storage) {
  return storage.lease() != nullptr || !storage.is_on_cpu() ||
         (!storage.name().empty() && GetNameKeeper() != nullptr);
}

std::vector<Tensor> ToHold(const TensorMessage& tensors) {
  std::vector<Tensor> found;
  for (const TensorMessage::Field& field : tensors.fields()) {
    const auto& tensor = std::get<Tensor>(field);
    if (tensor.storage() != nullptr && NeedsReceipt(*tensor.storage())) {
      found.push_back(tensor);
    }
  }
  return found;
}

absl::Status AsLoss(const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return status;
  return absl::DataLossError(
      absl::StrCat("a tensor cannot be claimed: ", status.message()));
}

}  // namespace

absl::StatusOr<UniqueFd> WriteParcel(const TensorMessage& tensors,
                                     TensorHold hold, ArchiveWriter& bytes,
                                     std::vector<int>& fds) {
  TensorFdList needed;
  TENON_ASSIGN_OR_RETURN(const std::string record,
                         EncodeRecord(tensors, needed));
  UniqueFd receipt;
  if (hold == TensorHold::kUntilClaimed) {
    std::vector<Tensor> held = ToHold(tensors);
    if (!held.empty()) {
      TENON_ASSIGN_OR_RETURN(receipt, HoldUntilClosed(std::move(held)));
    }
  }
  bytes.PutString(record);
  bytes.PutString(needed.bytes());
  const size_t before = fds.size();
  fds.insert(fds.end(), needed.fds().begin(), needed.fds().end());
  if (receipt.valid()) fds.push_back(receipt.get());
  bytes.Put(static_cast<uint32_t>(fds.size() - before));
  return receipt;
}

absl::StatusOr<std::vector<absl::StatusOr<Tensor>>> TensorClaimer::Claim(
    ArchiveReader& bytes, std::vector<UniqueFd>& fds) {
  Message needed;
  TENON_ASSIGN_OR_RETURN(const std::string record, bytes.GetString());
  TENON_ASSIGN_OR_RETURN(needed.bytes, bytes.GetString());
  TENON_ASSIGN_OR_RETURN(const uint32_t count, bytes.Get<uint32_t>());
  if (count > fds.size()) {
    return absl::DataLossError(absl::StrCat(
        "malformed tensor parcel: ", fds.size(), " descriptors; want ", count));
  }
  // Closed after the claims, with the receipt, the last one.
  const auto first = fds.end() - count;
  std::move(first, fds.end(), std::back_inserter(needed.fds));
  fds.erase(first, fds.end());
  std::optional<ReceivedTensorFds> item;
  TENON_ASSIGN_OR_RETURN(item, ReceivedTensorFds::From(std::move(needed)));
  TENON_CRASH_POINT("tensor_parcel.received");
  const auto take = []() -> absl::StatusOr<Message> {
    return absl::NotFoundError("its descriptor is not in the parcel");
  };
  TensorSource source(take, &item);
  TENON_ASSIGN_OR_RETURN(
      auto tensors,
      decoder_.DecodeEach(std::as_bytes(std::span(record)), source));
  for (absl::StatusOr<Tensor>& tensor : tensors) {
    if (!tensor.ok()) tensor = AsLoss(tensor.status());
  }
  TENON_CRASH_POINT("tensor_parcel.claimed");
  return tensors;
}

}  // namespace tenon::spawn
