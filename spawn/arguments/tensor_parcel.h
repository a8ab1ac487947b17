// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Sends tensors in blocks of arenas with a message: by reference, with an offer
// of each segment that contains one of them. Not for users.
//
//   TensorParcel parcel;
//   TENON_RETURN_IF_ERROR(parcel.Add(frame));
//   TENON_ASSIGN_OR_RETURN(UniqueFd receipt, HoldUntilClosed({frame}));
//   parcel.set_receipt(receipt.get());
//   parcel.Write(bytes, fds);  // Send them.
//
//   // The receiver, from what it got:
//   TENON_ASSIGN_OR_RETURN(auto tensors, claimer.Claim(bytes, fds));
//
// The sender holds the tensors until they are claimed: by a receipt
// (hold_until_closed.h), which the claimer closes, or until the message is
// answered. Every parcel contains its offers, so the sender keeps no record of
// the receiver's attachments, and a receiver may drop any of them.

#ifndef TENON_SPAWN_ARGUMENTS_TENSOR_PARCEL_H_
#define TENON_SPAWN_ARGUMENTS_TENSOR_PARCEL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::spawn {

// Ownership: borrows the descriptors of the arenas, which are valid as long as
//   the tensors live.
// Threads: thread-compatible.
class TensorParcel {
 public:
  // Errors: those of Describe() and Offer() (arena_tensor.h).
  absl::Status Add(const Tensor& tensor);
  bool empty() const { return tensors_.empty(); }

  // Sent with the parcel, and closed by each receiver once it has claimed.
  void set_receipt(int fd) { receipt_ = fd; }

  // Appends the parcel to a message and its descriptors; must be the last part.
  void Write(ArchiveWriter& bytes, std::vector<int>& fds) const;

 private:
  struct Offered {
    RandomId arena;
    uint32_t segment = 0;
    ArenaOffer offer;
  };
  struct Named {
    uint32_t offer = 0;
    ArenaTensorHandle handle;
  };

  absl::StatusOr<uint32_t> OfferOf(const Tensor& tensor,
                                   const ArenaTensorHandle& handle);

  std::vector<Offered> offers_;
  std::vector<Named> tensors_;
  int receipt_ = -1;
};

// Ownership: stays attached to the last arenas used, up to 128 of them, until
//   it is destroyed.
// Threads: thread-safe.
// Processes: in a forked child calls fail with kFailedPrecondition.
// Trust: as ArenaTensorImporter.
class TensorClaimer {
 public:
  TensorClaimer()
      : importer_({.max_arenas = kMaxArenas, .forget_idle = true}) {}

  // Reads the parcel from `bytes`, with all descriptors behind those of the
  // message itself; closes the receipt in any case. Each element is a claimed
  // tensor or the error of its claim: kDataLoss if the block was reused because
  // the sender was killed; kResourceExhausted at a limit of this process.
  // Errors: kDataLoss if the parcel is malformed.
  absl::StatusOr<std::vector<absl::StatusOr<Tensor>>> Claim(
      ArchiveReader& bytes, absl::Span<UniqueFd> fds);

 private:
  static constexpr size_t kMaxArenas = 128;
  struct Received;

  static absl::StatusOr<Received> Read(ArchiveReader& bytes,
                                       absl::Span<UniqueFd> fds);
  absl::StatusOr<Tensor> ClaimOne(const ArenaTensorHandle& handle,
                                  uint32_t offer, Received& received);
  absl::Status Accept(uint32_t offer, Received& received);

  ArenaTensorImporter importer_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_TENSOR_PARCEL_H_
