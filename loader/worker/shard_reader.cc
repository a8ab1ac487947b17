// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/shard_reader.h"

#include <atomic>
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
#include "tenon/shm/base/atomics.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {

absl::StatusOr<std::optional<FilledBatch>> ShardReader::Fill(
    const ShardTask& task, std::byte* memory,
    absl::FunctionRef<bool()> should_stop) {
  Shard& shard = ShardOf(task.lane);
  while (shard.batches < task.before) {
    const absl::StatusOr<std::optional<FilledBatch>> passed =
        NextBatch(task, shard, memory, true, should_stop);
    if (absl::IsCancelled(passed.status()) && should_stop()) {
      return passed.status();
    }
    if (passed.ok() && !passed->has_value()) return std::nullopt;
    if (shard.is_lost) {
      shard.batches = task.before + 1;
      return passed.status();
    }
    // An error of a sample was that of a batch, too.
    ++shard.batches;
  }
  ++shard.batches;
  return NextBatch(task, shard, memory, false, should_stop);
}

absl::StatusOr<std::optional<FilledBatch>> ShardReader::NextBatch(
    const ShardTask& task, Shard& shard, std::byte* memory, bool pass_over,
    absl::FunctionRef<bool()> should_stop) {
  for (;;) {
    TENON_ASSIGN_OR_RETURN(
        std::optional<FilledBatch> filled,
        FillFrom(task, shard, memory, pass_over, should_stop));
    if (filled) return filled;
    const std::optional<int64_t> after = lanes_.After(shard.number);
    if (!after || shard.is_lost) return std::nullopt;
    shard = {.number = *after, .batches = shard.batches};
  }
}

absl::StatusOr<std::optional<FilledBatch>> ShardReader::FillFrom(
    const ShardTask& task, Shard& shard, std::byte* memory, bool pass_over,
    absl::FunctionRef<bool()> should_stop) {
  if (!shard.opened) TENON_RETURN_IF_ERROR(Open(task, shard));
  if (task.scratch != nullptr) task.scratch->Reset();
  FilledBatch filled;
  int64_t seen = 0;  // Good, skipped or passed over.
  while (seen < task.samples && shard.stream != nullptr) {
    if (should_stop()) return absl::CancelledError("the batch was cancelled");
    if (pass_over) {
      filled = FilledBatch();  // Each sample is made in the first one's place.
      TENON_ASSIGN_OR_RETURN(const int64_t skipped,
                             Skip(shard, task.samples - seen));
      seen += skipped;
      if (seen == task.samples) break;
    }
    if (task.now != nullptr) {
      StdAtomics::Store(*task.now, static_cast<uint64_t>(seen) + 1,
                        std::memory_order_relaxed);
    }
    absl::StatusOr<bool> more = FillOne(task, shard, memory, filled);
    if (!more.ok()) {
      shard.stream.reset();
      return more.status();
    }
    if (*more) {
      ++seen;
    } else {
      shard.stream.reset();
    }
  }
  if (seen == 0 || (task.drop_last && seen < task.samples)) {
    return std::nullopt;
  }
  return filled;
}

bool ShardReader::HasEnded(int64_t lane) const {
  const auto found = shards_.find(lane);
  if (found == shards_.end()) return false;
  const Shard& shard = found->second;
  return shard.has_ended() && (shard.is_lost || !lanes_.After(shard.number));
}

void ShardReader::CloseShard(int64_t lane, int64_t before) {
  Shard& shard = ShardOf(lane);
  if (shard.batches < before) return;
  ++shard.batches;
  if (shard.has_ended() && !shard.is_lost) {
    if (const std::optional<int64_t> after = lanes_.After(shard.number)) {
      shard = {.number = *after, .batches = shard.batches};
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

absl::StatusOr<int64_t> ShardReader::Skip(Shard& shard, int64_t samples) {
  absl::StatusOr<int64_t> skipped = Catching(
      "SampleStream::Skip()", [&] { return shard.stream->Skip(samples); });
  if (skipped.ok() && (*skipped < 0 || *skipped > samples)) {
    skipped = absl::InternalError(
        absl::StrCat("SampleStream::Skip() passed over ", *skipped, " of ",
                     samples, " samples; want 0 to ", samples));
  }
  if (!skipped.ok()) {
    shard.stream.reset();
    shard.is_lost = true;
    return absl::Status(
        skipped.status().code(),
        absl::StrCat("shard ", shard.number, ": ", skipped.status().message()));
  }
  shard.next += *skipped;
  return *skipped;
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
