// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/archive.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {

void ArchiveWriter::PutString(absl::string_view value) {
  Put(uint64_t{value.size()});
  bytes_.append(value.data(), value.size());
}

void ArchiveWriter::PutStatus(absl::StatusCode code,
                              absl::string_view message) {
  Put(static_cast<int32_t>(code));
  PutString(message);
}

absl::Status ArchiveReader::Read(void* to, size_t size) {
  if (size > left_.size()) {
    return absl::DataLossError(absl::StrCat("ArchiveReader::Get(): a value of ",
                                            size, " bytes exceeds the ",
                                            left_.size(), " bytes left"));
  }
  std::memcpy(to, left_.data(), size);
  left_.remove_prefix(size);
  return absl::OkStatus();
}

template <>
absl::StatusOr<bool> ArchiveReader::Get<bool>() {
  const absl::string_view before = left_;
  TENON_ASSIGN_OR_RETURN(const uint8_t byte, Get<uint8_t>());
  if (byte > 1) {
    left_ = before;
    return absl::DataLossError(absl::StrCat(
        "ArchiveReader::Get(): a bool has value ", byte, "; want 0 or 1"));
  }
  return byte == 1;
}

absl::StatusOr<std::string> ArchiveReader::GetString() {
  const absl::string_view before = left_;
  TENON_ASSIGN_OR_RETURN(const uint64_t size, Get<uint64_t>());
  if (size > left_.size()) {
    const size_t there = left_.size();
    left_ = before;
    return absl::DataLossError(
        absl::StrCat("ArchiveReader::GetString(): a string of ", size,
                     " bytes exceeds the ", there, " bytes left"));
  }
  std::string value(left_.substr(0, size));
  left_.remove_prefix(size);
  return value;
}

absl::Status ArchiveReader::GetStatus(absl::Status* status) {
  constexpr auto kLast =
      static_cast<int32_t>(absl::StatusCode::kUnauthenticated);
  ArchiveReader rest = *this;
  TENON_ASSIGN_OR_RETURN(const auto code, rest.Get<int32_t>());
  TENON_ASSIGN_OR_RETURN(const std::string message, rest.GetString());
  if (code < 0 || code > kLast) {
    return absl::DataLossError(
        absl::StrCat("ArchiveReader::GetStatus(): unknown status code ", code,
                     "; want 0 to ", kLast));
  }
  if (code == 0 && !message.empty()) {
    return absl::DataLossError(
        "ArchiveReader::GetStatus(): status OK with a message");
  }
  *status = absl::Status(static_cast<absl::StatusCode>(code), message);
  *this = rest;
  return absl::OkStatus();
}

absl::Status ArchiveReader::Finish() const {
  if (left_.empty()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("ArchiveReader::Finish(): ", left_.size(),
                   " bytes are left over after the last value"));
}

}  // namespace tenon
