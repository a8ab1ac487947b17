// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/data/sample_scratch.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon::loader {
namespace {

// Of the first chunk; each of the following is as large as all before it.
constexpr size_t kChunkBytes = size_t{1} << 12;
constexpr size_t kAlignment = BatchLayout::kAlignment;

}  // namespace

SampleScratch::SampleScratch(const BatchLayout* layout)
    : layout_(*layout),
      entries_(static_cast<size_t>(layout->varying()) *
               static_cast<size_t>(layout->varying() > 0 ? layout->batch_size()
                                                         : 0)) {}

void SampleScratch::Reset() {
  std::fill(entries_.begin(), entries_.end(), Entry());
  const ThreadLock lock(&mutex_);
  chunk_ = 0;
  used_ = 0;
}

void SampleScratch::Clear(int64_t sample) {
  const auto count = static_cast<size_t>(layout_.varying());
  std::fill_n(entries_.begin() + sample * layout_.varying(), count, Entry());
}

void SampleScratch::Move(int64_t from, int64_t to) {
  const auto first = entries_.begin() + from * layout_.varying();
  std::copy_n(first, layout_.varying(),
              entries_.begin() + to * layout_.varying());
  Clear(from);
}

size_t SampleScratch::IndexOf(int f, int64_t sample) const {
  const int varying = layout_.fields()[static_cast<size_t>(f)].varying;
  return static_cast<size_t>(sample * layout_.varying() + varying);
}

absl::StatusOr<std::span<std::byte>> SampleScratch::Allocate(
    int f, int64_t sample, absl::Span<const int64_t> shape) {
  TENON_ASSIGN_OR_RETURN(
      const TensorSpec spec,
      TensorSpec::Contiguous(
          layout_.fields()[static_cast<size_t>(f)].declared.tensor.dtype(),
          shape));
  TENON_ASSIGN_OR_RETURN(entries_[IndexOf(f, sample)], Place(spec));
  return bytes(f, sample);
}

absl::StatusOr<SampleScratch::Entry> SampleScratch::Place(
    const TensorSpec& spec) {
  const ThreadLock lock(&mutex_);
  const auto bytes = static_cast<size_t>(spec.bytes());
  while (chunk_ < chunks_.size() && bytes > chunks_[chunk_].size - used_) {
    ++chunk_;
    used_ = 0;
  }
  if (chunk_ == chunks_.size()) {
    Chunk chunk;
    chunk.size = std::max({bytes, kChunkBytes, total_});
    chunk.memory.reset(new (std::nothrow) std::byte[chunk.size]);
    if (chunk.memory == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "no memory for ", spec.ToString(), ": ", SizeText(chunk.size),
          " with what is kept for the next samples"));
    }
    total_ += chunk.size;
    chunk.storage = Storage::FromLent({.data = chunk.memory.get(),
                                       .size_bytes = chunk.size,
                                       .writable = true,
                                       .lender = nullptr});
    chunks_.push_back(std::move(chunk));
  }
  const auto placed = TensorSpec::Contiguous(spec.dtype(), spec.shape(), used_);
  const Entry entry = {static_cast<int>(chunk_), placed.value_or(TensorSpec())};
  used_ = std::min((used_ + bytes + kAlignment - 1) / kAlignment * kAlignment,
                   chunks_[chunk_].size);
  return entry;
}

std::span<std::byte> SampleScratch::bytes(int f, int64_t sample) const {
  const Entry& entry = entries_[IndexOf(f, sample)];
  if (entry.chunk < 0) return {};
  const ThreadLock lock(&mutex_);
  const Chunk& chunk = chunks_[static_cast<size_t>(entry.chunk)];
  return std::span(chunk.memory.get(), chunk.size)
      .subspan(entry.spec.byte_offset(),
               static_cast<size_t>(entry.spec.bytes()));
}

std::optional<Tensor> SampleScratch::Find(int f, int64_t sample) const {
  const Entry& entry = entries_[IndexOf(f, sample)];
  if (entry.chunk < 0) return std::nullopt;
  const ThreadLock lock(&mutex_);
  const Chunk& chunk = chunks_[static_cast<size_t>(entry.chunk)];
  const auto tensor = Tensor::FromSpec(entry.spec, chunk.storage);
  return tensor.ok() ? std::optional(*tensor) : std::nullopt;
}

absl::Status SampleScratch::Check(int64_t sample) const {
  for (size_t f = 0; f < layout_.fields().size(); ++f) {
    const SampleSpec::Field& field = layout_.fields()[f].declared;
    if (field.kind == FieldKind::kFixed || field.kind == FieldKind::kOutput) {
      continue;
    }
    const Entry& entry = entries_[IndexOf(static_cast<int>(f), sample)];
    if (entry.chunk < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("field '", field.name,
                       "' was not written; its shape differs from sample to "
                       "sample: call Sample::Allocate() or SetText()"));
    }
    const Entry& first = entries_[IndexOf(static_cast<int>(f), 0)];
    if (field.kind != FieldKind::kStacked ||
        entry.spec.shape() == first.spec.shape()) {
      continue;
    }
    const auto text = [](const Entry& of) {
      return TensorSpec::Contiguous(of.spec.dtype(), of.spec.shape())
          .value_or(of.spec)
          .ToString();
    };
    return absl::InvalidArgumentError(absl::StrCat(
        "field '", field.name, "' is ", text(entry),
        ", and that of the first sample of its batch is ", text(first),
        "; a field of SampleSpec::AddStacked() has one shape in a batch"));
  }
  return absl::OkStatus();
}

}  // namespace tenon::loader
