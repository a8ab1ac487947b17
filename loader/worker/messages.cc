// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/messages.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/loader/data/field.h"
#include "tenon/loader/worker/fill_batch.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon::loader {
namespace {

enum class MessageType : uint8_t { kSampleFailed = 1, kBatchDone = 2 };

// A message must fit a channel's; the end of a long one says least.
constexpr size_t kMaxStatusMessage = 4096;

void PutStatus(ArchiveWriter& writer, const absl::Status& status) {
  writer.PutStatus(status.code(),
                   status.message().substr(0, kMaxStatusMessage));
}

// Reads an enum whose values are 0 to `last`.
template <typename Enum>
absl::StatusOr<Enum> GetEnum(ArchiveReader& reader, Enum last) {
  TENON_ASSIGN_OR_RETURN(const uint8_t value, reader.Get<uint8_t>());
  if (value > static_cast<uint8_t>(last)) {
    return absl::DataLossError(
        absl::StrCat("enum value ", value, " is out of its range"));
  }
  return static_cast<Enum>(value);
}

void PutField(ArchiveWriter& writer, const FieldSpec& field) {
  writer.PutString(field.name);
  writer.Put(field.dtype.code);
  writer.Put(field.dtype.bits);
  writer.Put(field.dtype.lanes);
  writer.Put(static_cast<uint64_t>(field.shape.size()));
  for (const int64_t extent : field.shape) writer.Put(extent);
}

absl::StatusOr<FieldSpec> GetField(ArchiveReader& reader) {
  FieldSpec field;
  TENON_ASSIGN_OR_RETURN(field.name, reader.GetString());
  TENON_ASSIGN_OR_RETURN(field.dtype.code, reader.Get<uint8_t>());
  TENON_ASSIGN_OR_RETURN(field.dtype.bits, reader.Get<uint8_t>());
  TENON_ASSIGN_OR_RETURN(field.dtype.lanes, reader.Get<uint16_t>());
  TENON_ASSIGN_OR_RETURN(const uint64_t rank, reader.Get<uint64_t>());
  for (uint64_t i = 0; i < rank; ++i) {  // Ends with the bytes, whatever rank.
    TENON_ASSIGN_OR_RETURN(const int64_t extent, reader.Get<int64_t>());
    field.shape.push_back(extent);
  }
  return field;
}

absl::StatusOr<SampleFailed> GetSampleFailed(ArchiveReader& reader) {
  SampleFailed failed;
  TENON_ASSIGN_OR_RETURN(failed.ticket, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(failed.position, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(failed.index, reader.Get<int64_t>());
  TENON_RETURN_IF_ERROR(reader.GetStatus(&failed.status));
  return failed;
}

absl::StatusOr<BatchDone> GetBatchDone(ArchiveReader& reader) {
  BatchDone done;
  TENON_ASSIGN_OR_RETURN(done.ticket, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(done.filled, reader.Get<int64_t>());
  TENON_RETURN_IF_ERROR(reader.GetStatus(&done.status));
  TENON_ASSIGN_OR_RETURN(done.has_segment, reader.Get<bool>());
  TENON_ASSIGN_OR_RETURN(done.segment_name, reader.GetString());
  return done;
}

}  // namespace

std::string Encode(const WorkerSetup& setup) {
  ArchiveWriter writer;
  writer.PutString(setup.dataset);
  writer.PutString(setup.dataset_config);
  writer.Put(static_cast<uint64_t>(setup.fields.size()));
  for (const FieldSpec& field : setup.fields) PutField(writer, field);
  writer.Put(setup.batch_size);
  writer.Put(setup.seed);
  writer.Put(setup.on_error);
  writer.Put(static_cast<uint8_t>(setup.strategy));
  writer.PutString(setup.name_prefix);
  return std::move(writer).bytes();
}

std::string Encode(const Task& task) {
  ArchiveWriter writer;
  writer.Put(task.ticket);
  writer.Put(task.epoch);
  writer.Put(task.first_position);
  writer.Put(task.count);
  writer.Put(task.list);
  writer.Put(task.slot);
  return std::move(writer).bytes();
}

std::string Encode(const SampleFailed& failed) {
  ArchiveWriter writer;
  writer.Put(MessageType::kSampleFailed);
  writer.Put(failed.ticket);
  writer.Put(failed.position);
  writer.Put(failed.index);
  PutStatus(writer, failed.status);
  return std::move(writer).bytes();
}

std::string Encode(const BatchDone& done) {
  ArchiveWriter writer;
  writer.Put(MessageType::kBatchDone);
  writer.Put(done.ticket);
  writer.Put(done.filled);
  PutStatus(writer, done.status);
  writer.Put(done.has_segment);
  writer.PutString(done.segment_name);
  return std::move(writer).bytes();
}

absl::StatusOr<WorkerSetup> DecodeWorkerSetup(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  WorkerSetup setup;
  TENON_ASSIGN_OR_RETURN(setup.dataset, reader.GetString());
  TENON_ASSIGN_OR_RETURN(setup.dataset_config, reader.GetString());
  TENON_ASSIGN_OR_RETURN(const uint64_t fields, reader.Get<uint64_t>());
  for (uint64_t i = 0; i < fields; ++i) {
    TENON_ASSIGN_OR_RETURN(FieldSpec field, GetField(reader));
    setup.fields.push_back(std::move(field));
  }
  TENON_ASSIGN_OR_RETURN(setup.batch_size, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(setup.seed, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(setup.on_error, GetEnum(reader, OnSampleError::kSkip));
  TENON_ASSIGN_OR_RETURN(setup.strategy,
                         GetEnum(reader, SharingStrategy::kFileSystem));
  TENON_ASSIGN_OR_RETURN(setup.name_prefix, reader.GetString());
  TENON_RETURN_IF_ERROR(reader.Finish());
  return setup;
}

absl::StatusOr<Task> DecodeTask(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  Task task;
  TENON_ASSIGN_OR_RETURN(task.ticket, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(task.epoch, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(task.first_position, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(task.count, reader.Get<uint32_t>());
  TENON_ASSIGN_OR_RETURN(task.list, reader.Get<uint32_t>());
  TENON_ASSIGN_OR_RETURN(task.slot, reader.Get<uint32_t>());
  TENON_RETURN_IF_ERROR(reader.Finish());
  return task;
}

absl::StatusOr<WorkerMessage> DecodeWorkerMessage(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  TENON_ASSIGN_OR_RETURN(const uint8_t type, reader.Get<uint8_t>());
  WorkerMessage message;
  switch (static_cast<MessageType>(type)) {
    case MessageType::kSampleFailed: {
      TENON_ASSIGN_OR_RETURN(message, GetSampleFailed(reader));
      break;
    }
    case MessageType::kBatchDone: {
      TENON_ASSIGN_OR_RETURN(message, GetBatchDone(reader));
      break;
    }
    default:
      return absl::DataLossError(
          absl::StrCat("a worker's message has unknown type ", type));
  }
  TENON_RETURN_IF_ERROR(reader.Finish());
  return message;
}

}  // namespace tenon::loader
