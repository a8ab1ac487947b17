// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/tensor_parcel.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::spawn {
namespace {

absl::Status MalformedParcel(absl::string_view why) {
  return absl::DataLossError(absl::StrCat("malformed tensor parcel: ", why));
}

absl::StatusOr<std::vector<UniqueFd>> Duplicate(
    absl::Span<const UniqueFd> fds) {
  std::vector<UniqueFd> copies;
  for (const UniqueFd& fd : fds) {
    TENON_ASSIGN_OR_RETURN(copies.emplace_back(),
                           DuplicateFd(fd.get(), "offer of an arena"));
  }
  return copies;
}

absl::StatusOr<ArenaTensorHandle> ReadHandle(ArchiveReader& bytes) {
  TENON_ASSIGN_OR_RETURN(const std::string raw, bytes.GetString());
  ArenaTensorHandle handle;
  if (raw.size() != sizeof(handle)) {
    return MalformedParcel(absl::StrCat("handle of ", raw.size(),
                                        " bytes; want ", sizeof(handle)));
  }
  std::memcpy(&handle, raw.data(), sizeof(handle));
  return handle;
}

}  // namespace

// ---- Sending ----

absl::StatusOr<uint32_t> TensorParcel::OfferOf(
    const Tensor& tensor, const ArenaTensorHandle& handle) {
  // Usually it is the last one.
  const auto found =
      std::find_if(offers_.rbegin(), offers_.rend(), [&](const Offered& there) {
        return there.segment == handle.block.segment &&
               there.arena == handle.block.arena;
      });
  if (found != offers_.rend()) {
    return static_cast<uint32_t>(std::distance(found, offers_.rend()) - 1);
  }
  TENON_ASSIGN_OR_RETURN(ArenaOffer offer, Offer(tensor));
  offers_.push_back(
      {handle.block.arena, handle.block.segment, std::move(offer)});
  return static_cast<uint32_t>(offers_.size() - 1);
}

absl::Status TensorParcel::Add(const Tensor& tensor) {
  TENON_ASSIGN_OR_RETURN(const ArenaTensorHandle handle, Describe(tensor));
  TENON_ASSIGN_OR_RETURN(const uint32_t offer, OfferOf(tensor, handle));
  tensors_.push_back({offer, handle});
  return absl::OkStatus();
}

void TensorParcel::Write(ArchiveWriter& bytes, std::vector<int>& fds) const {
  bytes.Put(static_cast<uint32_t>(offers_.size()));
  for (const Offered& there : offers_) {
    bytes.PutString(there.offer.bytes);
    bytes.Put(static_cast<uint32_t>(there.offer.fds.size()));
    fds.insert(fds.end(), there.offer.fds.begin(), there.offer.fds.end());
  }
  bytes.Put(static_cast<uint32_t>(tensors_.size()));
  for (const Named& tensor : tensors_) {
    bytes.Put(tensor.offer);
    bytes.PutString(
        {reinterpret_cast<const char*>(&tensor.handle), sizeof(tensor.handle)});
  }
  bytes.Put(receipt_ >= 0);
  if (receipt_ >= 0) fds.push_back(receipt_);
}

// ---- Receiving ----

struct TensorClaimer::Received {
  struct Named {
    uint32_t offer = 0;
    ArenaTensorHandle handle;
  };

  std::vector<Message> offers;
  std::vector<Named> tensors;
  UniqueFd receipt;
};

absl::StatusOr<TensorClaimer::Received> TensorClaimer::Read(
    ArchiveReader& bytes, absl::Span<UniqueFd> fds) {
  Received received;
  // Nothing is reserved for elements that have not been read.
  TENON_ASSIGN_OR_RETURN(const auto offers, bytes.Get<uint32_t>());
  for (uint32_t i = 0; i < offers; ++i) {
    Message offer;
    TENON_ASSIGN_OR_RETURN(offer.bytes, bytes.GetString());
    TENON_ASSIGN_OR_RETURN(const auto count, bytes.Get<uint32_t>());
    if (count > fds.size()) {
      return MalformedParcel(
          absl::StrCat(fds.size(), " descriptors left; want ", count));
    }
    for (UniqueFd& fd : fds.first(count)) offer.fds.push_back(std::move(fd));
    fds.remove_prefix(count);
    received.offers.push_back(std::move(offer));
  }
  TENON_ASSIGN_OR_RETURN(const auto tensors, bytes.Get<uint32_t>());
  for (uint32_t i = 0; i < tensors; ++i) {
    Received::Named tensor;
    TENON_ASSIGN_OR_RETURN(tensor.offer, bytes.Get<uint32_t>());
    TENON_ASSIGN_OR_RETURN(tensor.handle, ReadHandle(bytes));
    if (tensor.offer >= offers) {
      return MalformedParcel(
          absl::StrCat("offer ", tensor.offer, " of ", offers));
    }
    received.tensors.push_back(tensor);
  }
  TENON_ASSIGN_OR_RETURN(const bool has_receipt, bytes.Get<bool>());
  if (fds.size() != (has_receipt ? 1 : 0)) {
    return MalformedParcel(absl::StrCat(
        fds.size(), " descriptors at its end; want ", has_receipt ? 1 : 0));
  }
  if (has_receipt) received.receipt = std::move(fds.front());
  return received;
}

absl::StatusOr<std::vector<absl::StatusOr<Tensor>>> TensorClaimer::Claim(
    ArchiveReader& bytes, absl::Span<UniqueFd> fds) {
  TENON_ASSIGN_OR_RETURN(Received received, Read(bytes, fds));
  TENON_CRASH_POINT("tensor_parcel.received");
  std::vector<absl::StatusOr<Tensor>> tensors;
  for (const Received::Named& named : received.tensors) {
    tensors.push_back(ClaimOne(named.handle, named.offer, received));
  }
  TENON_CRASH_POINT("tensor_parcel.claimed");
  return tensors;
}

absl::StatusOr<Tensor> TensorClaimer::ClaimOne(const ArenaTensorHandle& handle,
                                               uint32_t offer,
                                               Received& received) {
  absl::StatusOr<Tensor> tensor = importer_.Claim(handle);
  if (absl::IsNotFound(tensor.status()) ||
      absl::IsUnavailable(tensor.status())) {
    const absl::Status accepted = Accept(offer, received);
    tensor = accepted.ok() ? importer_.Claim(handle) : accepted;
  }
  if (tensor.ok() || absl::IsResourceExhausted(tensor.status())) return tensor;
  return absl::DataLossError(
      absl::StrCat("a tensor cannot be claimed: ", tensor.status().message()));
}

absl::Status TensorClaimer::Accept(uint32_t offer, Received& received) {
  const Message& offered = received.offers[offer];
  // Another tensor may need the offer, too.
  TENON_ASSIGN_OR_RETURN(std::vector<UniqueFd> fds, Duplicate(offered.fds));
  return importer_.Accept(offered.bytes, std::move(fds));
}

}  // namespace tenon::spawn
