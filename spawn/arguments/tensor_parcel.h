// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Sends tensors with a message: by reference, with the descriptors that the
// receiver needs. They are encoded as in a TensorQueue (//ipc/tensor_codec).
// Not for users.
//
//   TENON_ASSIGN_OR_RETURN(
//       UniqueFd receipt,
//       WriteParcel(TensorMessage(frame), TensorHold::kUntilClaimed, bytes,
//                   fds));  // Send them, then close the receipt.
//
//   // The receiver, from what it got:
//   TENON_ASSIGN_OR_RETURN(auto tensors, claimer.Claim(bytes, fds));
//
// Every parcel contains the offers of its arenas, so the sender keeps no record
// of the receiver's attachments, and a receiver may drop any of them.

#ifndef TENON_SPAWN_ARGUMENTS_TENSOR_PARCEL_H_
#define TENON_SPAWN_ARGUMENTS_TENSOR_PARCEL_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/tensor_codec/tensor_decoder.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::spawn {

// Until when the blocks of arenas are held, and named segments if this process
// has a NameKeeper (name_keeper.h).
enum class TensorHold {
  kByCaller,      // Until the caller knows that they are claimed.
  kUntilClaimed,  // Until each receiver has closed its copy of the receipt.
};

// Appends a message of tensors, none of them private, to another message and
// its descriptors; must be the last part. The descriptors are valid as long as
// the tensors and the result, the receipt (hold_until_closed.h), which is
// invalid if there is none.
// Errors: those of EncodeRecord(); kResourceExhausted at a limit of
// descriptors.
absl::StatusOr<UniqueFd> WriteParcel(const TensorMessage& tensors,
                                     TensorHold hold, ArchiveWriter& bytes,
                                     std::vector<int>& fds);

// Ownership: stays attached to the last arenas used, up to 128 of them, until
//   it is destroyed.
// Threads: thread-safe.
// Processes: in a forked child calls fail with kFailedPrecondition.
// Trust: as TensorDecoder.
class TensorClaimer {
 public:
  TensorClaimer() : decoder_({.max_arenas = kMaxArenas}, {}) {}

  // Reads the parcel from `bytes` and takes its descriptors, the last of `fds`;
  // closes the receipt, one of them, after the claims. Each element is a
  // claimed tensor or the error of its claim: kDataLoss, among others if the
  // block was reused because the sender was killed; kResourceExhausted at a
  // limit of this process. Errors: kDataLoss if the parcel is malformed; then
  // its descriptors may have stayed in `fds`: close them, so that the sender's
  // hold ends.
  absl::StatusOr<std::vector<absl::StatusOr<Tensor>>> Claim(
      ArchiveReader& bytes, std::vector<UniqueFd>& fds);

 private:
  static constexpr size_t kMaxArenas = 128;

  TensorDecoder decoder_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_ARGUMENTS_TENSOR_PARCEL_H_
