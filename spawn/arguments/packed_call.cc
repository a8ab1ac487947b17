// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/packed_call.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/tensor_parcel.h"

namespace tenon::spawn {
namespace {

constexpr uint32_t kCallMagic = 0x6c6c6163;  // "call"

// Of a call without a parcel.
constexpr size_t kParcelHead = sizeof(uint32_t) + sizeof(uint64_t);

}  // namespace

absl::Status SignatureMismatch(absl::string_view what, absl::string_view takes,
                               absl::string_view given) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes ", takes, ", got ", given));
}

void PutCallHead(const std::string& signature, ArgumentWriter& to) {
  to.Put(kCallMagic);
  to.PutString("");
  to.PutString(signature);
}

absl::StatusOr<PackedArguments> EncloseTensors(PackedArguments call) {
  if (call.tensors.list.empty()) return call;
  TensorMessage tensors;
  for (absl::StatusOr<Tensor>& tensor : call.tensors.list) {
    TENON_RETURN_IF_ERROR(tensor.status());
    tensors.Add(*std::move(tensor));
  }
  ArchiveWriter written;
  std::vector<int> fds;
  TENON_ASSIGN_OR_RETURN(
      const UniqueFd receipt,
      WriteParcel(tensors, TensorHold::kUntilClaimed, written, fds));
  ArgumentWriter copies;
  for (const int fd : fds) {
    TENON_RETURN_IF_ERROR(copies.PutFd(fd));
  }
  TENON_ASSIGN_OR_RETURN(PackedArguments copied, std::move(copies).Finish());
  for (UniqueFd& fd : copied.fds) call.fds.push_back(std::move(fd));
  ArchiveWriter head;
  head.Put(kCallMagic);
  head.PutString(written.bytes());
  call.bytes.replace(0, kParcelHead, head.bytes());
  call.tensors.list.clear();
  return call;
}

absl::StatusOr<ArgumentReader> OpenCall(absl::string_view bytes,
                                        const std::string& signature,
                                        std::vector<UniqueFd> fds,
                                        PackedTensors tensors) {
  ArchiveReader reader(bytes);
  const absl::StatusOr<uint32_t> magic = reader.Get<uint32_t>();
  if (!magic.ok() || *magic != kCallMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat("the function takes ", signature,
                     ", got no typed arguments (start.h)"));
  }
  TENON_ASSIGN_OR_RETURN(const std::string parcel, reader.GetString());
  TENON_ASSIGN_OR_RETURN(const std::string given, reader.GetString());
  if (given != signature) {
    return SignatureMismatch("the function", signature, given);
  }
  if (!parcel.empty()) {
    if (!tensors.list.empty()) {
      return absl::DataLossError(
          "arguments: tensors in the call, and tensors of its message");
    }
    ArchiveReader of_parcel(parcel);
    TENON_ASSIGN_OR_RETURN(tensors.list, TensorClaimer().Claim(of_parcel, fds));
    TENON_RETURN_IF_ERROR(of_parcel.Finish());
  }
  return ArgumentReader(bytes.substr(bytes.size() - reader.left()),
                        std::move(fds), std::move(tensors));
}

}  // namespace tenon::spawn
