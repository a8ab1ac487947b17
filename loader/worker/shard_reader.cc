// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/shard_reader.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tenon/loader/data/batch.h"
#include "tenon/loader/data/catching.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample.h"
#include "tenon/loader/data/sample_scratch.h"
#include "tenon/loader/sampling/sample_random.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

absl::StatusOr<std::optional<FilledBatch>> ShardReader::Fill(
    const ShardTask& task, std::byte* memory,
    absl::FunctionRef<bool()> should_stop) {
  Shard& shard = ShardOf(task.lane);
  for (;;) {
    TENON_ASSIGN_OR_RETURN(std::optional<FilledBatch> filled,
                           FillFrom(task, shard, memory, should_stop));
    if (filled) return filled;
    const std::optional<int64_t> after = lanes_.After(shard.number);
    if (!after) return std::nullopt;
    shard = {.number = *after};
  }
}

absl::StatusOr<std::optional<FilledBatch>> ShardReader::FillFrom(
    const ShardTask& task, Shard& shard, std::byte* memory,
    absl::FunctionRef<bool()> should_stop) {
  if (!shard.opened) TENON_RETURN_IF_ERROR(Open(task, shard));
  if (task.scratch != nullptr) task.scratch->Reset();
  FilledBatch filled;
  for (int64_t i = 0; i < task.samples && shard.stream != nullptr; ++i) {
    if (should_stop()) return absl::CancelledError("the batch was cancelled");
    absl::StatusOr<bool> more = FillOne(task, shard, memory, filled);
    if (!more.ok()) {
      shard.stream.reset();
      return more.status();
    }
    if (!*more) shard.stream.reset();
  }
  const int64_t seen = filled.samples + std::ssize(filled.skipped);
  if (seen == 0 || (task.drop_last && seen < task.samples)) {
    return std::nullopt;
  }
  return filled;
}

bool ShardReader::HasEnded(int64_t lane) const {
  const auto found = shards_.find(lane);
  if (found == shards_.end()) return false;
  const Shard& shard = found->second;
  return shard.has_ended() && !lanes_.After(shard.number);
}

void ShardReader::CloseShard(int64_t lane) {
  Shard& shard = ShardOf(lane);
  if (shard.has_ended()) {
    if (const std::optional<int64_t> after = lanes_.After(shard.number)) {
      shard = {.number = *after};
    }
  }
  shard.opened = true;
  shard.stream.reset();
}

absl::Status ShardReader::Open(const ShardTask& task, Shard& shard) {
  shard.opened = true;
  auto stream = Catching("IterableDataset::Open()", [&] {
    return OpenShard(*dataset_, shard.number, task.epoch);
  });
  if (!stream.ok()) {
    return absl::Status(
        stream.status().code(),
        absl::StrCat("shard ", shard.number, ": ", stream.status().message()));
  }
  shard.stream = *std::move(stream);
  return absl::OkStatus();
}

absl::StatusOr<bool> ShardReader::FillOne(const ShardTask& task, Shard& shard,
                                          std::byte* memory,
                                          FilledBatch& filled) {
  const int64_t n = shard.next++;
  const int64_t position = PositionInShard(shard.number, n);
  SampleRandom random(task.seed, task.epoch, position);
  if (task.scratch != nullptr) task.scratch->Clear(filled.samples);
  Sample sample(*layout_, memory, filled.samples, 1, task.scratch);
  absl::StatusOr<bool> more = Catching("SampleStream::Next()", [&] {
    return shard.stream->Next(random, sample);
  });
  if (more.ok() && *more && task.scratch != nullptr) {
    const absl::Status written = task.scratch->Check(filled.samples);
    if (!written.ok()) more = written;
  }
  if (more.ok()) {
    filled.samples += *more ? 1 : 0;
    return more;
  }
  if (task.on_error == OnSampleError::kSkip) {
    filled.skipped.push_back({position, n, std::move(more).status()});
    return true;
  }
  return absl::Status(more.status().code(),
                      absl::StrCat("shard ", shard.number, ", sample ", n, ": ",
                                   more.status().message()));
}

}  // namespace tenon::loader
