// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorDecoder: makes a message of a record, with its tensors claimed or
// imported. Internal to tensor queues.

#ifndef TENON_IPC_TENSOR_CODEC_TENSOR_DECODER_H_
#define TENON_IPC_TENSOR_CODEC_TENSOR_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/queue/fd_shelf.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_codec/tensor_shelf.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon {

// What a sender has laid out, taken when something of it is wanted, and kept in
// `*item` for the next one.
class TensorSource {
 public:
  using Take = absl::FunctionRef<absl::StatusOr<ShelfItem>()>;

  TensorSource(Take take, std::optional<TensorShelfItem>* item)
      : take_(take), item_(*item) {}

  // What `find` finds, a StatusOr; it looks again in what lies there now if it
  // is not in what was taken before. Errors: find's; those of taking.
  template <typename Find>
  auto Get(const Find& find)
      -> decltype(find(std::declval<TensorShelfItem&>())) {
    if (item_) {
      auto found = find(*item_);
      if (found.ok()) return found;
    }
    TENON_ASSIGN_OR_RETURN(ShelfItem item, take_());
    TENON_ASSIGN_OR_RETURN(item_, TensorShelfItem::From(std::move(item)));
    return find(*item_);
  }

 private:
  const Take take_;
  std::optional<TensorShelfItem>& item_;
};

// Threads: thread-safe, but for the source.
// Trust: records may be anything, a half-written one among them: an error, at
//   most with what it names claimed or mapped for a moment.
// Failure: what was claimed has been released.
class TensorDecoder {
 public:
  TensorDecoder(ArenaTensorImporterOptions arenas,
                const TensorImporterOptions& segments)
      // Senders offer an arena for as long as they send of it.
      : arenas_((arenas.forget_idle = true, arenas)), segments_(segments) {}

  // Errors: kResourceExhausted if a limit of this process or its importers is
  // in the way: another try may succeed; kDataLoss if none will.
  // `message` is empty before.
  absl::Status Decode(std::span<const std::byte> record, TensorSource& source,
                      TensorMessage* message);
  // The same for a message of one tensor and nothing else. Errors: also
  // kInvalidArgument if it has something else.
  absl::Status Decode(std::span<const std::byte> record, TensorSource& source,
                      Tensor* tensor);

  // Unmaps what senders have given up: segments, and arenas of which nothing is
  // held and whose owner has ended. The second at most every 100 ms.
  void Sweep() { arenas_.Sweep(); }
  void SweepNowAndThen() { arenas_.SweepNowAndThen(); }
  // What is mapped of arenas.
  ArenaTensorImporter::Mapped mapped() { return arenas_.mapped(); }

  // That a tensor which was sent is the same when it comes back.
  void Recognize(const Tensor& sent) { segments_.Recognize(sent); }

 private:
  class Decoding;

  absl::StatusOr<std::shared_ptr<Storage>> Claim(const BlockDescriptor& block,
                                                 TensorSource& source);
  absl::StatusOr<Tensor> Claim(const BlockDescriptor& block,
                               const TensorSpec& spec, TensorSource& source);
  absl::StatusOr<std::shared_ptr<Storage>> AttachAndClaim(
      const BlockDescriptor& block, TensorSource& source);
  absl::StatusOr<Tensor> Import(const WireSegment& segment,
                                const TensorSpec& spec, TensorSource& source);

  ArenaTensorImporter arenas_;
  TensorImporter segments_;
};

}  // namespace tenon

#endif  // TENON_IPC_TENSOR_CODEC_TENSOR_DECODER_H_
