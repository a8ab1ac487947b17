// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/pool_protocol.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/ipc/archive.h"
#include "tenon/ipc/channel.h"
#include "tenon/shm/deadline.h"
#include "tenon/shm/status_macros.h"
#include "tenon/shm/unique_fd.h"
#include "tenon/spawn/argument.h"

namespace tenon::spawn {
namespace {

constexpr int32_t kLastCode =
    static_cast<int32_t>(absl::StatusCode::kUnauthenticated);

// A large message takes a descriptor itself.
constexpr size_t kMaxFds = Channel::kMaxFds - 1;
// A quarter of what a channel receives at most.
constexpr uint64_t kMaxBytes = uint64_t{256} << 20;

// Descriptors of all that is packed, in order.
class Sender {
 public:
  void Put(const PackedArguments& packed) {
    writer.PutString(packed.bytes);
    writer.Put(static_cast<uint32_t>(packed.fds.size()));
    for (const UniqueFd& fd : packed.fds) fds.push_back(fd.get());
  }

  absl::Status Send(Channel& channel, Deadline deadline) const {
    if (fds.size() > Channel::kMaxFds) {
      return absl::InvalidArgumentError(
          absl::StrCat(fds.size(), " descriptors at once; at most ",
                       Channel::kMaxFds, " travel"));
    }
    return channel.Send(writer.bytes(), fds, deadline);
  }

  ArchiveWriter writer;
  std::vector<int> fds;
};

class Receiver {
 public:
  explicit Receiver(Message& message)
      : reader(message.bytes), fds_(message.fds) {}

  absl::StatusOr<PackedArguments> Get() {
    PackedArguments packed;
    TENON_ASSIGN_OR_RETURN(packed.bytes, reader.GetString());
    TENON_ASSIGN_OR_RETURN(const uint32_t count, reader.Get<uint32_t>());
    if (count > fds_.size() - next_) {
      return absl::DataLossError("descriptors are missing");
    }
    for (uint32_t i = 0; i < count; ++i) {
      packed.fds.push_back(std::move(fds_[next_++]));
    }
    return packed;
  }

  absl::Status Finish() const {
    if (next_ != fds_.size()) {
      return absl::DataLossError("descriptors are left over");
    }
    return reader.Finish();
  }

  ArchiveReader reader;

 private:
  std::vector<UniqueFd>& fds_;
  size_t next_ = 0;
};

absl::Status ReadStatus(ArchiveReader& reader, absl::Status* status) {
  TENON_ASSIGN_OR_RETURN(const auto code, reader.Get<int32_t>());
  if (code < 0 || code > kLastCode) {
    return absl::DataLossError(absl::StrCat("status code ", code));
  }
  TENON_ASSIGN_OR_RETURN(const std::string message, reader.GetString());
  if (code == 0 && !message.empty()) {
    return absl::DataLossError("it says OK and has a message");
  }
  *status = absl::Status(static_cast<absl::StatusCode>(code), message);
  return absl::OkStatus();
}

}  // namespace

bool MessageRoom::Take(const PackedArguments& packed) {
  fds_ += packed.fds.size();
  bytes_ += packed.bytes.size();
  return std::exchange(is_empty_, false) ||
         (fds_ <= kMaxFds && bytes_ <= kMaxBytes);
}

absl::Status SendBatch(Channel& channel, const PoolBatch& batch,
                       Deadline deadline) {
  Sender sender;
  sender.writer.Put(batch.id);
  sender.writer.PutString(batch.function);
  sender.writer.Put(static_cast<uint32_t>(batch.calls.size()));
  for (const PackedArguments& call : batch.calls) sender.Put(call);
  return sender.Send(channel, deadline);
}

absl::StatusOr<PoolBatch> ReadBatch(Message message) {
  Receiver receiver(message);
  PoolBatch batch;
  TENON_ASSIGN_OR_RETURN(batch.id, receiver.reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(batch.function, receiver.reader.GetString());
  TENON_ASSIGN_OR_RETURN(const auto count, receiver.reader.Get<uint32_t>());
  for (uint32_t i = 0; i < count; ++i) {
    TENON_ASSIGN_OR_RETURN(PackedArguments call, receiver.Get());
    batch.calls.push_back(std::move(call));
  }
  TENON_RETURN_IF_ERROR(receiver.Finish());
  return batch;
}

absl::Status SendAnswers(Channel& channel, const PoolAnswers& answers,
                         Deadline deadline) {
  Sender sender;
  sender.writer.Put(answers.id);
  sender.writer.Put(answers.rss_bytes);
  sender.writer.Put(static_cast<uint32_t>(answers.answers.size()));
  for (const PoolAnswer& answer : answers.answers) {
    sender.writer.Put(static_cast<int32_t>(answer.status.code()));
    sender.writer.PutString(answer.status.message());
    sender.writer.PutString(answer.stack);
    sender.Put(answer.value);
  }
  return sender.Send(channel, deadline);
}

absl::StatusOr<PoolAnswers> ReadAnswers(Message message) {
  Receiver receiver(message);
  PoolAnswers answers;
  TENON_ASSIGN_OR_RETURN(answers.id, receiver.reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(answers.rss_bytes, receiver.reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(const auto count, receiver.reader.Get<uint32_t>());
  for (uint32_t i = 0; i < count; ++i) {
    PoolAnswer answer;
    TENON_RETURN_IF_ERROR(ReadStatus(receiver.reader, &answer.status));
    TENON_ASSIGN_OR_RETURN(answer.stack, receiver.reader.GetString());
    TENON_ASSIGN_OR_RETURN(answer.value, receiver.Get());
    answers.answers.push_back(std::move(answer));
  }
  TENON_RETURN_IF_ERROR(receiver.Finish());
  return answers;
}

}  // namespace tenon::spawn
