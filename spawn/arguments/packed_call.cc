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
namespace {

constexpr uint32_t kCallMagic = 0x6c6c6163;  // "call"

// Of a call without a parcel.
constexpr size_t kParcelHead = 2 * sizeof(uint32_t) + sizeof(uint64_t);

// Claims the tensors of a parcel, and takes its descriptors, the last `count`.
// An empty parcel has none.
absl::StatusOr<PackedTensors> ClaimParcel(absl::string_view parcel,
                                          uint32_t count,
                                          std::vector<UniqueFd>& fds) {
  if (parcel.empty() != (count == 0)) {
    return absl::DataLossError(absl::StrCat("arguments: ", count,
                                            " descriptors for a parcel of ",
                                            parcel.size(), " bytes"));
  }
  if (count > fds.size()) {
    return absl::DataLossError(absl::StrCat("arguments: ", fds.size(),
                                            " descriptors; want at least ",
                                            count, " for tensors"));
  }
  const size_t others = fds.size() - count;
  ArchiveReader reader(parcel);
  TensorClaimer claimer;
  PackedTensors tensors;
  TENON_ASSIGN_OR_RETURN(
      tensors.list, claimer.Claim(reader, absl::MakeSpan(fds).subspan(others)));
  TENON_RETURN_IF_ERROR(reader.Finish());
  fds.resize(others);
  return tensors;
}

}  // namespace

absl::Status SignatureMismatch(absl::string_view what, absl::string_view takes,
                               absl::string_view given) {
  return absl::InvalidArgumentError(
      absl::StrCat(what, " takes ", takes, ", got ", given));
}

void PutCallHead(const std::string& signature, ArgumentWriter& to) {
  to.Put(kCallMagic);
  to.Put(uint32_t{0});
  to.PutString("");
  to.PutString(signature);
}

absl::StatusOr<PackedArguments> EncloseTensors(PackedArguments call) {
  if (call.tensors.list.empty()) return call;
  TensorParcel parcel;
  std::vector<Tensor> held;
  for (absl::StatusOr<Tensor>& tensor : call.tensors.list) {
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
  ArchiveWriter head;
  head.Put(kCallMagic);
  head.Put(static_cast<uint32_t>(fds.size()));
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
  TENON_ASSIGN_OR_RETURN(const auto count, reader.Get<uint32_t>());
  TENON_ASSIGN_OR_RETURN(const std::string parcel, reader.GetString());
  TENON_ASSIGN_OR_RETURN(const std::string given, reader.GetString());
  if (given != signature) {
    return SignatureMismatch("the function", signature, given);
  }
  if (!parcel.empty() || count != 0) {
    if (!tensors.list.empty()) {
      return absl::DataLossError(
          "arguments: tensors in the call, and tensors of its message");
    }
    TENON_ASSIGN_OR_RETURN(tensors, ClaimParcel(parcel, count, fds));
  }
  return ArgumentReader(bytes.substr(bytes.size() - reader.left()),
                        std::move(fds), std::move(tensors));
}

}  // namespace tenon::spawn
