// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/exchange/tensor_handle.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {
namespace {

absl::Status Refuse(absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("tensor handle: ", why));
}

}  // namespace

absl::StatusOr<TensorHandle> TensorHandle::Parse(absl::string_view bytes) {
  TensorHandle handle;
  if (bytes.size() != sizeof(handle)) {
    return Refuse(
        absl::StrCat("it has ", bytes.size(), " bytes; want ", sizeof(handle)));
  }
  std::memcpy(static_cast<void*>(&handle), bytes.data(), sizeof(handle));
  return handle;
}

absl::Status TensorHandle::Check() const {
  if (magic != kMagic) {
    return Refuse(absl::StrCat("bad magic 0x", absl::Hex(magic)));
  }
  if (version != kVersion) {
    return Refuse(absl::StrCat("it has version ", version,
                               "; this program has version ", int{kVersion}));
  }
  if (strategy != Strategy::kFileDescriptor &&
      strategy != Strategy::kFileSystem) {
    return Refuse(
        absl::StrCat("unknown strategy ", static_cast<int>(strategy)));
  }
  if (kind != Kind::kOwnerWritten && kind != Kind::kSharedWritable) {
    return Refuse(
        absl::StrCat("unknown segment kind ", static_cast<int>(kind)));
  }
  const size_t length = segment_name().size();
  if (length == sizeof(name) || std::any_of(name + length, std::end(name),
                                            [](char c) { return c != '\0'; })) {
    return Refuse("its name is not padded with zeros");
  }
  const bool named = has_segment() && strategy == Strategy::kFileSystem;
  if (named == (length == 0)) {
    return Refuse(named ? "it has no name" : "it has a name");
  }
  return spec.CheckFits(storage_bytes);
}

SharingStrategy TensorHandle::segment_strategy() const {
  return strategy == Strategy::kFileSystem ? SharingStrategy::kFileSystem
                                           : SharingStrategy::kFileDescriptor;
}

SegmentKind TensorHandle::segment_kind() const {
  return kind == Kind::kOwnerWritten ? SegmentKind::kOwnerWritten
                                     : SegmentKind::kSharedWritable;
}

absl::string_view TensorHandle::segment_name() const {
  return {name, strnlen(name, sizeof(name))};
}

absl::StatusOr<ExportedTensor> Export(const Tensor& tensor) {
  if (!tensor.is_shared()) {
    return absl::FailedPreconditionError(
        absl::StrCat("tensor ", tensor.spec().ToString(),
                     " is private: call Share() before Export()"));
  }
  const Storage& storage = *tensor.storage();
  TENON_RETURN_IF_ERROR(storage.CheckUsable());
  if (storage.lease() != nullptr) {
    return absl::FailedPreconditionError(
        "the tensor is in a block of an arena; send it as an ArenaTensorHandle "
        "(arena/arena_tensor.h)");
  }
  const bool by_name = storage.strategy() == SharingStrategy::kFileSystem;
  const bool owned = storage.kind() == SegmentKind::kOwnerWritten;
  ExportedTensor exported = {
      .handle = {.magic = TensorHandle::kMagic,
                 .version = TensorHandle::kVersion,
                 .strategy = by_name ? TensorHandle::Strategy::kFileSystem
                                     : TensorHandle::Strategy::kFileDescriptor,
                 .kind = owned ? TensorHandle::Kind::kOwnerWritten
                               : TensorHandle::Kind::kSharedWritable,
                 .storage_bytes = storage.size_bytes(),
                 .id = storage.id().value_or(Storage::Id()),
                 .spec = tensor.spec(),
                 .name = {}},
      .fd = by_name ? -1 : storage.fd()};
  // A name has at most kMaxShmNameLength characters, which leaves zeros.
  storage.name().copy(exported.handle.name, sizeof(exported.handle.name) - 1);
  return exported;
}

}  // namespace tenon
