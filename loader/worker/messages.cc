// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/messages.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/plugin_version.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"

namespace tenon::loader {
namespace {

enum class MessageType : uint8_t { kOffer = 1, kNote = 2 };

// A note is bounded: the end of a long message says least.
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

absl::StatusOr<BatchNote> GetNote(ArchiveReader& reader) {
  BatchNote note;
  TENON_RETURN_IF_ERROR(reader.GetStatus(&note.status));
  TENON_ASSIGN_OR_RETURN(const uint64_t skipped, reader.Get<uint64_t>());
  for (uint64_t i = 0; i < skipped;
       ++i) {  // Ends with the bytes at the latest.
    SkippedSample sample;
    TENON_ASSIGN_OR_RETURN(sample.position, reader.Get<int64_t>());
    TENON_ASSIGN_OR_RETURN(sample.index, reader.Get<int64_t>());
    TENON_RETURN_IF_ERROR(reader.GetStatus(&sample.status));
    TENON_ASSIGN_OR_RETURN(sample.replaced_by, reader.Get<int64_t>());
    note.skipped.push_back(std::move(sample));
  }
  return note;
}

}  // namespace

std::string NamePrefixOf(const WorkerSetup& setup, int worker) {
  return absl::StrCat(setup.name_prefix, "-w", worker);
}

std::string Encode(const WorkerSetup& setup) {
  ArchiveWriter writer;
  writer.PutString(kPluginVersion);
  writer.PutString(setup.plugin);
  writer.PutString(setup.dataset);
  writer.PutString(setup.arguments);
  writer.PutString(setup.spec);
  writer.Put(setup.shards);
  writer.Put(setup.lanes);
  writer.Put(setup.batch_size);
  writer.Put(static_cast<uint8_t>(setup.unbatched));
  writer.Put(setup.prefetch);
  writer.Put(setup.seed);
  writer.Put(setup.on_error);
  writer.Put(static_cast<uint8_t>(setup.drop_last));
  writer.Put(static_cast<uint8_t>(setup.strategy));
  writer.PutString(setup.name_prefix);
  writer.PutString(setup.worker_init);
  writer.Put(setup.workers);
  writer.Put(setup.threads);
  writer.Put(setup.rank);
  writer.Put(setup.world_size);
  writer.Put(setup.loader.high);
  writer.Put(setup.loader.low);
  writer.Put(setup.trace_events);
  return std::move(writer).bytes();
}

absl::StatusOr<WorkerSetup> DecodeWorkerSetup(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  WorkerSetup setup;
  TENON_ASSIGN_OR_RETURN(const std::string version, reader.GetString());
  if (version != kPluginVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the worker's program was built with version ",
                     kPluginVersion, " of Tenon, the loader's with ",
                     absl::CHexEscape(version.substr(0, 32))));
  }
  TENON_ASSIGN_OR_RETURN(setup.plugin, reader.GetString());
  TENON_ASSIGN_OR_RETURN(setup.dataset, reader.GetString());
  TENON_ASSIGN_OR_RETURN(setup.arguments, reader.GetString());
  TENON_ASSIGN_OR_RETURN(setup.spec, reader.GetString());
  TENON_ASSIGN_OR_RETURN(setup.shards, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(setup.lanes, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(setup.batch_size, reader.Get<int64_t>());
  TENON_ASSIGN_OR_RETURN(setup.unbatched, GetEnum(reader, true));
  TENON_ASSIGN_OR_RETURN(setup.prefetch, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(setup.seed, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(setup.on_error,
                         GetEnum(reader, OnSampleError::kReplace));
  TENON_ASSIGN_OR_RETURN(setup.drop_last, GetEnum(reader, true));
  TENON_ASSIGN_OR_RETURN(setup.strategy,
                         GetEnum(reader, SharingStrategy::kFileSystem));
  TENON_ASSIGN_OR_RETURN(setup.name_prefix, reader.GetString());
  TENON_ASSIGN_OR_RETURN(setup.worker_init, reader.GetString());
  TENON_ASSIGN_OR_RETURN(setup.workers, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(setup.threads, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(setup.rank, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(setup.world_size, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(setup.loader.high, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(setup.loader.low, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(setup.trace_events, reader.Get<int32_t>());
  TENON_RETURN_IF_ERROR(reader.Finish());
  if (setup.batch_size < 1 || setup.prefetch < 1 || setup.threads < 1) {
    return absl::DataLossError(absl::StrCat(
        "worker setup: batch_size ", setup.batch_size, ", prefetch ",
        setup.prefetch, ", threads ", setup.threads, "; want 1 or more"));
  }
  return setup;
}

std::string EncodeOffer(absl::string_view offer) {
  ArchiveWriter writer;
  writer.Put(MessageType::kOffer);
  writer.PutString(offer);
  return std::move(writer).bytes();
}

std::string EncodeNote(const BatchNote& note) {
  ArchiveWriter writer;
  writer.Put(MessageType::kNote);
  PutStatus(writer, note.status);
  writer.Put(static_cast<uint64_t>(note.skipped.size()));
  for (const SkippedSample& sample : note.skipped) {
    writer.Put(sample.position);
    writer.Put(sample.index);
    PutStatus(writer, sample.status);
    writer.Put(sample.replaced_by);
  }
  return std::move(writer).bytes();
}

absl::StatusOr<WorkerMessage> DecodeWorkerMessage(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  TENON_ASSIGN_OR_RETURN(const uint8_t type, reader.Get<uint8_t>());
  WorkerMessage message;
  switch (static_cast<MessageType>(type)) {
    case MessageType::kOffer: {
      message.is_offer = true;
      TENON_ASSIGN_OR_RETURN(message.offer, reader.GetString());
      break;
    }
    case MessageType::kNote: {
      TENON_ASSIGN_OR_RETURN(message.note, GetNote(reader));
      break;
    }
    default:
      return absl::DataLossError(
          absl::StrCat("worker message of unknown type ", type));
  }
  TENON_RETURN_IF_ERROR(reader.Finish());
  return message;
}

}  // namespace tenon::loader
