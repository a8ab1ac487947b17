// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool/internal/pool_protocol.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/tensor_parcel.h"

namespace tenon::spawn {

// Descriptors and tensors of all packed calls or answers, in order.
class PoolMessage {
 public:
  absl::Status Put(const PackedArguments& packed) {
    writer.PutString(packed.bytes);
    writer.Put(static_cast<uint32_t>(packed.fds.size()));
    for (const UniqueFd& fd : packed.fds) fds.push_back(fd.get());
    writer.Put(static_cast<uint32_t>(packed.tensors.list.size()));
    for (const absl::StatusOr<Tensor>& tensor : packed.tensors.list) {
      TENON_RETURN_IF_ERROR(tensor.status());
      tensors_.Add(*tensor);
    }
    return absl::OkStatus();
  }

  // Called after all puts; from then on this object is not moved.
  absl::Status Prepare(TensorHold hold) {
    if (!tensors_.empty()) {
      TENON_ASSIGN_OR_RETURN(receipt_, WriteParcel(std::exchange(tensors_, {}),
                                                   hold, writer, fds));
    }
    if (fds.size() > Channel::kMaxFds) {
      return absl::InvalidArgumentError(absl::StrCat("message has ", fds.size(),
                                                     " descriptors; at most ",
                                                     Channel::kMaxFds));
    }
    TENON_ASSIGN_OR_RETURN(prepared_, Channel::Prepare(writer.bytes(), fds));
    return absl::OkStatus();
  }

  absl::Status Send(Channel& channel, Deadline deadline) const {
    return channel.Send(prepared_, deadline);
  }

  ArchiveWriter writer;
  std::vector<int> fds;

 private:
  TensorMessage tensors_;
  UniqueFd receipt_;
  Channel::Prepared prepared_;
};

namespace {

// A large message itself takes a descriptor.
constexpr size_t kMaxFds = Channel::kMaxFds - 1;
// A quarter of a channel's limit.
constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

// For the offer of one segment, at most.
constexpr size_t kFdsOfOffer = 3;

class Receiver {
 public:
  explicit Receiver(Message& message)
      : reader(message.bytes), fds_(message.fds) {}

  absl::StatusOr<PackedArguments> Get() {
    PackedArguments packed;
    TENON_ASSIGN_OR_RETURN(packed.bytes, reader.GetString());
    TENON_ASSIGN_OR_RETURN(const uint32_t count, reader.Get<uint32_t>());
    if (count > fds_.size() - next_) {
      return absl::DataLossError(
          absl::StrCat("pool message: ", fds_.size() - next_,
                       " descriptors left; want ", count));
    }
    for (uint32_t i = 0; i < count; ++i) {
      packed.fds.push_back(std::move(fds_[next_++]));
    }
    TENON_ASSIGN_OR_RETURN(const uint32_t tensors, reader.Get<uint32_t>());
    counts_.push_back(tensors);
    wanted_ += tensors;
    return packed;
  }

  // Called after all gets: claims their tensors.
  absl::Status ClaimTensors(TensorClaimer& claimer) {
    if (wanted_ == 0) return absl::OkStatus();
    TENON_ASSIGN_OR_RETURN(tensors_, claimer.Claim(reader, fds_));
    if (tensors_.size() == wanted_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("pool message: ", tensors_.size(),
                                            " tensors; want ", wanted_));
  }

  // Called in the order of the gets.
  void GiveTensors(PackedArguments& packed) {
    for (uint32_t i = 0; i < counts_[given_] && !tensors_.empty(); ++i) {
      packed.tensors.list.push_back(std::move(tensors_[next_tensor_++]));
    }
    ++given_;
  }

  absl::Status Finish() const {
    if (next_ != fds_.size()) {
      return absl::DataLossError(
          absl::StrCat("pool message: ", fds_.size(),
                       " descriptors beside those of tensors; want ", next_));
    }
    return reader.Finish();
  }

  ArchiveReader reader;

 private:
  std::vector<UniqueFd>& fds_;
  size_t next_ = 0;
  std::vector<uint32_t> counts_;  // Number of tensors per get.
  uint64_t wanted_ = 0;           // Their sum.
  std::vector<absl::StatusOr<Tensor>> tensors_;
  size_t given_ = 0;
  size_t next_tensor_ = 0;
};

}  // namespace

void MessageRoom::TakeTensor(const Tensor& tensor) {
  const Storage* const storage = tensor.storage().get();
  if (storage == nullptr || storage->lease() == nullptr) {
    ++fds_;  // At most.
    return;
  }
  const absl::StatusOr<BlockDescriptor> block = DescribeBlock(tensor);
  if (!block.ok()) return;  // Sending it fails later.
  const Segment segment = {block->arena, block->segment};
  if (std::find(segments_.rbegin(), segments_.rend(), segment) !=
      segments_.rend()) {
    return;
  }
  if (segments_.empty()) ++fds_;  // The receipt.
  fds_ += kFdsOfOffer;
  segments_.push_back(segment);
}

bool MessageRoom::Take(const PackedArguments& packed) {
  fds_ += packed.fds.size();
  for (const absl::StatusOr<Tensor>& tensor : packed.tensors.list) {
    if (tensor.ok()) TakeTensor(*tensor);
  }
  bytes_ += packed.bytes.size();
  return std::exchange(is_empty_, false) ||
         (fds_ <= kMaxFds && bytes_ <= kMaxBytes);
}

PackedBatch::PackedBatch(std::unique_ptr<PoolMessage> message)
    : message_(std::move(message)) {}
PackedBatch::~PackedBatch() = default;
PackedBatch::PackedBatch(PackedBatch&&) noexcept = default;
PackedBatch& PackedBatch::operator=(PackedBatch&&) noexcept = default;

absl::StatusOr<PackedBatch> PackedBatch::Of(
    uint64_t id, const std::string& function,
    absl::Span<const PackedArguments> calls) {
  auto message = std::make_unique<PoolMessage>();
  message->writer.Put(id);
  message->writer.PutString(function);
  message->writer.Put(static_cast<uint32_t>(calls.size()));
  for (const PackedArguments& call : calls) {
    TENON_RETURN_IF_ERROR(message->Put(call));
  }
  TENON_RETURN_IF_ERROR(message->Prepare(TensorHold::kByCaller));
  return PackedBatch(std::move(message));
}

absl::Status PackedBatch::Send(Channel& channel, Deadline deadline) const {
  return message_->Send(channel, deadline);
}

absl::Status SendBatch(Channel& channel, const PoolBatch& batch,
                       Deadline deadline) {
  TENON_ASSIGN_OR_RETURN(
      const PackedBatch packed,
      PackedBatch::Of(batch.id, batch.function, batch.calls));
  return packed.Send(channel, deadline);
}

absl::StatusOr<PoolBatch> ReadBatch(Message message, TensorClaimer& claimer) {
  Receiver receiver(message);
  PoolBatch batch;
  TENON_ASSIGN_OR_RETURN(batch.id, receiver.reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(batch.function, receiver.reader.GetString());
  TENON_ASSIGN_OR_RETURN(const auto count, receiver.reader.Get<uint32_t>());
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(PackedArguments call, receiver.Get());
    batch.calls.push_back(std::move(call));
  }
  TENON_RETURN_IF_ERROR(receiver.ClaimTensors(claimer));
  for (PackedArguments& call : batch.calls) receiver.GiveTensors(call);
  TENON_RETURN_IF_ERROR(receiver.Finish());
  return batch;
}

absl::Status SendAnswers(Channel& channel, const PoolAnswers& answers,
                         Deadline deadline) {
  PoolMessage sender;
  sender.writer.Put(answers.id);
  sender.writer.Put(answers.rss_bytes);
  sender.writer.Put(static_cast<uint32_t>(answers.answers.size()));
  for (const PoolAnswer& answer : answers.answers) {
    sender.writer.PutStatus(answer.status);
    sender.writer.PutString(answer.stack);
    TENON_RETURN_IF_ERROR(sender.Put(answer.value));
  }
  TENON_RETURN_IF_ERROR(sender.Prepare(TensorHold::kUntilClaimed));
  return sender.Send(channel, deadline);
}

absl::StatusOr<PoolAnswers> ReadAnswers(Message message,
                                        TensorClaimer& claimer) {
  Receiver receiver(message);
  PoolAnswers answers;
  TENON_ASSIGN_OR_RETURN(answers.id, receiver.reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(answers.rss_bytes, receiver.reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(const auto count, receiver.reader.Get<uint32_t>());
  for (uint32_t i = 0; i < count; ++i) {
    PoolAnswer answer;
    TENON_RETURN_IF_ERROR(receiver.reader.GetStatus(&answer.status));
    TENON_ASSIGN_OR_RETURN(answer.stack, receiver.reader.GetString());
    TENON_ASSIGN_OR_RETURN(answer.value, receiver.Get());
    answers.answers.push_back(std::move(answer));
  }
  TENON_RETURN_IF_ERROR(receiver.ClaimTensors(claimer));
  for (PoolAnswer& answer : answers.answers) receiver.GiveTensors(answer.value);
  TENON_RETURN_IF_ERROR(receiver.Finish());
  return answers;
}

}  // namespace tenon::spawn
