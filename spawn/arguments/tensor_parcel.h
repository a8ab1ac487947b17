// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// How tensors in blocks of arenas travel with a message: by reference, with an
// offer of each segment that they lie in. Not for users.
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
// Who sends keeps the tensors until they are claimed: by a receipt
// (hold_until_closed.h), which the claimer closes, or until it is answered.
// Offers come with every parcel, so nobody has to remember what a receiver
// knows, and a receiver may forget what it likes.

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

// Ownership: borrows the descriptors of the arenas, which are good as long as
//   the tensors live.
// Threads: thread-compatible.
class TensorParcel {
 public:
  // Errors: those of Describe() and Offer() (arena_tensor.h).
  absl::Status Add(const Tensor& tensor);
  bool empty() const { return tensors_.empty(); }

  // Goes with it, and is closed by each receiver once it has claimed.
  void set_receipt(int fd) { receipt_ = fd; }

  // Appends it to a message and its descriptors, whose last it has to be.
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

// Ownership: stays attached to the arenas it has seen, up to 128 of them, until
//   it is destroyed.
// Threads: thread-safe.
// Processes: in a forked child calls fail with kFailedPrecondition.
// Trust: as ArenaTensorImporter.
class TensorClaimer {
 public:
  TensorClaimer()
      : importer_({.max_arenas = kMaxArenas, .forget_idle = true}) {}

  // Reads what Write() has written, with all descriptors behind those of the
  // message itself; and closes the receipt, whatever comes of it. Each tensor
  // is claimed, or there is said why it cannot be: kDataLoss if it was reused,
  // as its sender was killed; kResourceExhausted at a limit of this process.
  // Errors: kDataLoss if it is not a parcel.
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
