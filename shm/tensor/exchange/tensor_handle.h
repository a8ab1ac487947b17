// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorHandle: a tensor as a message. It is sent as bytes, under
// kFileDescriptor together with the descriptor of the tensor's segment.
//
//   TENON_RETURN_IF_ERROR(tensor.Share());
//   TENON_ASSIGN_OR_RETURN(ExportedTensor sent, Export(tensor));
//   // Send sent.handle.AsBytes() and sent.fds(): tenon/ipc/channel/channel.h.
//
// The receiver makes a tensor of it: tensor_importer.h. A descriptor in flight
// keeps the memory alive; a name does not, so under kFileSystem the sender
// keeps the tensor until it knows that the receiver has opened it.

#ifndef TENON_SHM_TENSOR_EXCHANGE_TENSOR_HANDLE_H_
#define TENON_SHM_TENSOR_EXCHANGE_TENSOR_HANDLE_H_

#include <cstdint>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"

namespace tenon {

// 384 bytes without padding, trivially copyable; of one layout in all processes
// that speak kVersion.
//
//   0       4         6          7      8               16       24      32
//   | magic | version | strategy | kind | storage_bytes | device | inode |
//   32     176                        384
//   | spec | name, zeros to its end   |
//
// Trust: every field of a received one is untrusted: Check() it, and take size
//   and identity of the segment from the kernel alone, as TensorImporter does.
struct TensorHandle {
  static constexpr uint32_t kMagic = 0x68546e54;  // "TnTh"
  static constexpr uint16_t kVersion = 1;

  // Values on the wire, whatever the enums' own numbers are.
  enum class Strategy : uint8_t { kFileDescriptor = 1, kFileSystem = 2 };
  enum class Kind : uint8_t { kOwnerWritten = 1, kSharedWritable = 2 };

  uint32_t magic;
  uint16_t version;
  Strategy strategy;
  Kind kind;
  uint64_t storage_bytes;
  // Checked against the segment's identity, which comes from the kernel.
  Storage::Id id;
  TensorSpec spec;
  char name[208];

  // Errors: kInvalidArgument if the number of bytes is not a handle's.
  static absl::StatusOr<TensorHandle> Parse(absl::string_view bytes);
  absl::string_view AsBytes() const {
    return {reinterpret_cast<const char*>(this), sizeof(*this)};
  }

  // OK if the magic and version are right and the fields consistent.
  // Errors: kInvalidArgument naming the bad field.
  absl::Status Check() const;

  // For checked handles. A tensor without bytes has no segment.
  bool has_segment() const { return storage_bytes != 0; }
  SharingStrategy segment_strategy() const;
  SegmentKind segment_kind() const;
  absl::string_view segment_name() const;
};
static_assert(sizeof(TensorHandle) == 384);
static_assert(std::is_trivially_copyable_v<TensorHandle>);
static_assert(std::has_unique_object_representations_v<TensorHandle>);

struct ExportedTensor {
  TensorHandle handle;
  // To send with the handle; -1 if none. Borrowed: the tensor's storage keeps
  // it open.
  int fd = -1;

  // One descriptor or none, to send.
  absl::Span<const int> fds() const { return {&fd, fd >= 0 ? 1u : 0u}; }
};

// Thread-safe, as Tensor is. No byte of the handle is left uninitialised.
// Errors: kFailedPrecondition if the tensor is private (Share() it), was
// inherited by fork(), or is in a block of an arena.
absl::StatusOr<ExportedTensor> Export(const Tensor& tensor);

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_EXCHANGE_TENSOR_HANDLE_H_
