// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/child/start_message.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/carried_version.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/spawn/settings/child_settings.h"

namespace tenon::spawn {
namespace {

// Of all messages between a parent and its child, which begin with this one.
uint32_t StartVersion() { return CarriedVersion(5); }

// With a switch, -Wswitch reports a strategy that is missing here.
absl::StatusOr<SharingStrategy> CheckStrategy(SharingStrategy strategy) {
  switch (strategy) {
    case SharingStrategy::kFileDescriptor:
    case SharingStrategy::kFileSystem:
      return strategy;
  }
  return absl::DataLossError(absl::StrCat("start message: sharing strategy ",
                                          static_cast<int>(strategy)));
}

}  // namespace

std::string EncodeStartMessage(const StartMessage& message) {
  ArchiveWriter writer;
  writer.Put(StartVersion());
  writer.PutString(message.entry);
  writer.Put(message.index);
  writer.Put(message.ignore_interrupt);
  writer.Put(message.sharing_strategy);
  writer.PutString(EncodeChildSettings(message.settings));
  writer.PutString(message.inherited);
  writer.Put(message.ancestor_count);
  writer.Put(message.has_crash_record);
  writer.PutString(message.argument);
  writer.Put(message.argument_bytes);
  writer.Put(message.fd_count);
  return std::move(writer).bytes();
}

absl::StatusOr<StartMessage> DecodeStartMessage(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  TENON_ASSIGN_OR_RETURN(const uint32_t version, reader.Get<uint32_t>());
  if (version != StartVersion()) {
    return absl::DataLossError(
        absl::StrCat("start message: the parent's is of version ", version,
                     ", this program reads version ", StartVersion(),
                     "; build both from one version of Tenon"));
  }
  StartMessage message;
  TENON_ASSIGN_OR_RETURN(message.entry, reader.GetString());
  TENON_ASSIGN_OR_RETURN(message.index, reader.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(message.ignore_interrupt, reader.Get<bool>());
  TENON_ASSIGN_OR_RETURN(const auto strategy, reader.Get<SharingStrategy>());
  TENON_ASSIGN_OR_RETURN(message.sharing_strategy, CheckStrategy(strategy));
  TENON_ASSIGN_OR_RETURN(const std::string settings, reader.GetString());
  TENON_ASSIGN_OR_RETURN(message.settings, DecodeChildSettings(settings));
  TENON_ASSIGN_OR_RETURN(message.inherited, reader.GetString());
  TENON_ASSIGN_OR_RETURN(message.ancestor_count, reader.Get<uint32_t>());
  TENON_ASSIGN_OR_RETURN(message.has_crash_record, reader.Get<bool>());
  TENON_ASSIGN_OR_RETURN(message.argument, reader.GetString());
  TENON_ASSIGN_OR_RETURN(message.argument_bytes, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(message.fd_count, reader.Get<uint64_t>());
  TENON_RETURN_IF_ERROR(reader.Finish());
  return message;
}

}  // namespace tenon::spawn
