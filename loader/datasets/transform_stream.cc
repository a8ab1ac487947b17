// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/datasets/transform_stream.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::loader {
namespace {

// Fails if `parts`, a stream or a dataset, or the function is null.
template <typename T>
absl::Status CheckParts(absl::string_view type, absl::string_view what,
                        const std::unique_ptr<T>& part, bool has_function) {
  if (part != nullptr && has_function) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      type, "::Create(): the ",
      part == nullptr ? what : absl::string_view("function"), " is null"));
}

constexpr char kStream[] = "TransformStream";
constexpr char kIterable[] = "TransformIterable";

}  // namespace

absl::StatusOr<std::unique_ptr<TransformStream>> TransformStream::Create(
    std::unique_ptr<SampleStream> stream, InPlace function) {
  TENON_RETURN_IF_ERROR(
      CheckParts(kStream, "stream", stream, function != nullptr));
  auto made = absl::WrapUnique(new TransformStream);
  made->stream_ = std::move(stream);
  made->in_place_ = std::move(function);
  return made;
}

absl::StatusOr<std::unique_ptr<TransformStream>> TransformStream::Create(
    std::unique_ptr<SampleStream> stream, const SampleSpec& from,
    FromTo function) {
  TENON_RETURN_IF_ERROR(
      CheckParts(kStream, "stream", stream, function != nullptr));
  auto made = absl::WrapUnique(new TransformStream);
  TENON_ASSIGN_OR_RETURN(made->from_, ScratchSample::Create(from));
  made->stream_ = std::move(stream);
  made->from_to_ = std::move(function);
  return made;
}

absl::StatusOr<bool> TransformStream::Next(SampleRandom& random,
                                           Sample& sample) {
  if (in_place_ != nullptr) {
    TENON_ASSIGN_OR_RETURN(const bool more, stream_->Next(random, sample));
    if (!more) return false;
    TENON_RETURN_IF_ERROR(in_place_(random, sample));
    return true;
  }
  Sample from = from_->Reset();
  TENON_ASSIGN_OR_RETURN(const bool more, stream_->Next(random, from));
  if (!more) return false;
  TENON_RETURN_IF_ERROR(from_to_(from, random, sample));
  return true;
}

absl::StatusOr<std::unique_ptr<TransformIterable>> TransformIterable::Create(
    std::unique_ptr<IterableDataset> dataset, InPlace function) {
  TENON_RETURN_IF_ERROR(
      CheckParts(kIterable, "dataset", dataset, function != nullptr));
  const SampleSpec spec = dataset->spec();
  auto made = absl::WrapUnique(new TransformIterable(std::move(dataset), spec));
  made->in_place_ = std::move(function);
  return made;
}

absl::StatusOr<std::unique_ptr<TransformIterable>> TransformIterable::Create(
    std::unique_ptr<IterableDataset> dataset, const SampleSpec& spec,
    FromTo function) {
  TENON_RETURN_IF_ERROR(
      CheckParts(kIterable, "dataset", dataset, function != nullptr));
  TENON_RETURN_IF_ERROR(spec.status());
  TENON_RETURN_IF_ERROR(dataset->spec().status());
  auto made = absl::WrapUnique(new TransformIterable(std::move(dataset), spec));
  made->from_to_ = std::move(function);
  return made;
}

absl::StatusOr<std::unique_ptr<SampleStream>> TransformIterable::Open(
    int64_t shard, int64_t epoch) {
  TENON_ASSIGN_OR_RETURN(auto stream, OpenShard(*dataset_, shard, epoch));
  if (in_place_ != nullptr) {
    return TransformStream::Create(std::move(stream), in_place_);
  }
  return TransformStream::Create(std::move(stream), dataset_->spec(), from_to_);
}

absl::Status TransformIterable::Collate(Collation& batch) {
  return in_place_ != nullptr ? dataset_->Collate(batch)
                              : IterableDataset::Collate(batch);
}

}  // namespace tenon::loader
