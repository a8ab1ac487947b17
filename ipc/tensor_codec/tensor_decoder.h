// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorDecoder: decodes a record into a message with its tensors claimed or
// imported. Internal to tensor queues and //spawn.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_DECODER_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_DECODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/arena/arena_limits.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/arena/kept_block.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/exchange/tensor_importer_options.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

// A sender's descriptors, read when the first is needed and kept in `*item` for
// later ones.
class TensorSource {
 public:
  using Take = absl::FunctionRef<absl::StatusOr<Message>()>;

  TensorSource(Take take, std::optional<ReceivedTensorFds>* item)
      : take_(take), item_(*item) {}

  // The result of `find`, a StatusOr; if the kept item does not have it
  // (kNotFound), the published item is read again. Errors: find's; those of
  // reading.
  template <typename Find>
  auto Get(const Find& find)
      -> decltype(find(std::declval<ReceivedTensorFds&>())) {
    if (item_) {
      auto found = find(*item_);
      if (!absl::IsNotFound(found.status())) return found;
    }
    TENON_ASSIGN_OR_RETURN(Message item, take_());
    TENON_ASSIGN_OR_RETURN(item_, ReceivedTensorFds::From(std::move(item)));
    return find(*item_);
  }

 private:
  const Take take_;
  std::optional<ReceivedTensorFds>& item_;
};

// Names that the senders' NameKeepers hold for messages that were decoded. Once
// a message is taken, its receiver releases them.
using KeptNames = std::vector<std::string>;
void ReleaseKeptNames(const KeptNames& names);

// Threads: one thread at a time decodes; the other functions are thread-safe.
// Trust: records may be anything, half-written ones included: an error, at most
//   with the named memory claimed or mapped for a moment.
// Failure: all claims have been released.
class TensorDecoder {
 public:
  TensorDecoder(ArenaTensorImporterOptions arenas,
                const TensorImporterOptions& segments)
      // A sender offers an arena for as long as it sends from it.
      : arenas_((arenas.forget_idle = true, arenas)), segments_(segments) {}

  // Errors: kResourceExhausted if a limit of this process or its importers was
  // hit (a retry may succeed); kDataLoss if no retry can succeed. `message` is
  // empty before. Appends the names that are kept for it to `kept`, also if it
  // fails.
  absl::Status Decode(std::span<const std::byte> record, TensorSource& source,
                      TensorMessage* message, KeptNames* kept = nullptr);
  // The same for a message of exactly one tensor. Errors: also kInvalidArgument
  // if it has other fields.
  absl::Status Decode(std::span<const std::byte> record, TensorSource& source,
                      Tensor* tensor, KeptNames* kept = nullptr);
  // Decodes the result of EncodeRecord() for a message of tensors: each tensor,
  // or why it cannot be claimed or imported, unchanged: kResourceExhausted for
  // all tensors of a storage after the first of them. Releases no kept names,
  // as the message may have other receivers. Thread-safe. Errors: kDataLoss if
  // the record is malformed.
  absl::StatusOr<std::vector<absl::StatusOr<Tensor>>> DecodeEach(
      std::span<const std::byte> record, TensorSource& source);

  // The short way for a record of form 4 that is like one that was decoded
  // before, but for its generation: the storage, claimed, and the spec, valid
  // until the next call. Null, without effect, for all other records and on any
  // error: call Decode().
  std::shared_ptr<Storage> ClaimLike(const WireWords& record,
                                     const FittedSpec** spec) {
    if (seen_ == nullptr) return nullptr;
    const Seen& seen = (*seen_)[record.block() % kSeen];
    if (!seen.record.IsLike(record)) return nullptr;
    *spec = &seen.spec;
    return arenas_.ClaimAgain(seen.block, record.generation());
  }

  // Unmaps memory that senders no longer use: trimmed segments, and arenas of
  // which no tensor is held and whose owner has ended. SweepNowAndThen() acts
  // at most every 100 ms.
  void Sweep() { arenas_.Sweep(); }
  void SweepNowAndThen() { arenas_.SweepNowAndThen(); }
  // The mapped memory of arenas.
  MappedArenas mapped() { return arenas_.mapped(); }

  // Makes a sent tensor share its storage again when it is received back.
  void Recognize(const Tensor& sent) { segments_.Recognize(sent); }

 private:
  class Decoding;

  // A record of form 4 that was decoded. The spec fits the block.
  struct Seen {
    WireWords record = {};
    KeptBlock block;
    FittedSpec spec;
  };
  static constexpr size_t kSeen = 128;

  absl::StatusOr<std::shared_ptr<Storage>> ClaimAlone(
      std::span<const std::byte> record, TensorSource& source);
  absl::StatusOr<std::shared_ptr<Storage>> Claim(const BlockDescriptor& block,
                                                 TensorSource& source,
                                                 KeptBlock* kept = nullptr);
  absl::StatusOr<Tensor> Claim(const BlockDescriptor& block,
                               const TensorSpec& spec, TensorSource& source);
  absl::StatusOr<std::shared_ptr<Storage>> AttachAndClaim(
      const BlockDescriptor& block, TensorSource& source);
  absl::StatusOr<Tensor> Borrow(const WireStorage& loan, const TensorSpec& spec,
                                TensorSource& source);
  absl::StatusOr<Tensor> Import(const WireSegment& segment,
                                const TensorSpec& spec, TensorSource& source,
                                KeptNames* kept);

  ArenaTensorImporter arenas_;
  TensorImporter segments_;
  WireTensorRecord alone_;  // The last record of one tensor.
  // By the number of the block; none before the first.
  std::unique_ptr<std::array<Seen, kSeen>> seen_;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_DECODER_H_
