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
#include "absl/types/span.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/hold_until_closed.h"
#include "tenon/spawn/arguments/tensor_parcel.h"

namespace tenon::spawn {

absl::Status SignatureMismatch(absl::string_view what, absl::string_view takes,
                               absl::string_view given) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes ", takes, ", got ", given));
}

absl::StatusOr<absl::string_view> CheckCall(absl::string_view bytes,
                                            const std::string& signature) {
  ArchiveReader reader(bytes);
  const absl::StatusOr<uint32_t> magic = reader.Get<uint32_t>();
  if (!magic.ok() || *magic != kCallMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat("the function takes ", signature,
                     ", got no typed arguments (start.h)"));
  }
  TENON_ASSIGN_OR_RETURN(const std::string given, reader.GetString());
  if (given != signature) {
    return SignatureMismatch("the function", signature, given);
  }
  return bytes.substr(sizeof(*magic) + sizeof(uint64_t) + given.size());
}

absl::StatusOr<PackedArguments> EncloseTensors(PackedArguments call) {
  if (call.tensors.empty()) return call;
  TensorParcel parcel;
  std::vector<Tensor> held;
  for (absl::StatusOr<Tensor>& tensor : call.tensors) {
    TENON_RETURN_IF_ERROR(tensor.status());
    TENON_RETURN_IF_ERROR(parcel.Add(*tensor));
    held.push_back(*std::move(tensor));
  }
  TENON_ASSIGN_OR_RETURN(const UniqueFd receipt,
                         HoldUntilClosed(std::move(held)));
  parcel.set_receipt(receipt.get());
  ArchiveWriter written;
  std::vector<int> fds;
  parcel.Write(written, fds);
  ArgumentWriter copies;
  for (const int fd : fds) {
    TENON_RETURN_IF_ERROR(copies.PutFd(fd));
  }
  TENON_ASSIGN_OR_RETURN(PackedArguments copied, std::move(copies).Finish());
  for (UniqueFd& fd : copied.fds) call.fds.push_back(std::move(fd));
  ArchiveWriter bytes;
  bytes.Put(kTensorsMagic);
  bytes.Put(static_cast<uint32_t>(fds.size()));
  bytes.PutString(written.bytes());
  call.bytes.insert(0, bytes.bytes());
  call.tensors.clear();
  return call;
}

absl::StatusOr<EnclosedTensors> TakeTensors(absl::string_view bytes,
                                            std::vector<UniqueFd> fds) {
  EnclosedTensors enclosed = {
      .call = bytes, .fds = std::move(fds), .tensors = {}};
  ArchiveReader reader(bytes);
  const absl::StatusOr<uint32_t> magic = reader.Get<uint32_t>();
  if (!magic.ok() || *magic != kTensorsMagic) return enclosed;
  TENON_ASSIGN_OR_RETURN(const auto count, reader.Get<uint32_t>());
  TENON_ASSIGN_OR_RETURN(const std::string written, reader.GetString());
  if (count > enclosed.fds.size()) {
    return absl::DataLossError(absl::StrCat("arguments: ", enclosed.fds.size(),
                                            " descriptors; want at least ",
                                            count, " for tensors"));
  }
  const size_t others = enclosed.fds.size() - count;
  ArchiveReader parcel(written);
  TensorClaimer claimer;
  TENON_ASSIGN_OR_RETURN(
      enclosed.tensors,
      claimer.Claim(parcel, absl::MakeSpan(enclosed.fds).subspan(others)));
  TENON_RETURN_IF_ERROR(parcel.Finish());
  enclosed.fds.resize(others);
  enclosed.call.remove_prefix(2 * sizeof(uint32_t) + sizeof(uint64_t) +
                              written.size());
  return enclosed;
}

}  // namespace tenon::spawn
