// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// ArchiveWriter and ArchiveReader: plain values as bytes, and back with every
// step checked.
//
//   ArchiveWriter writer;
//   writer.Put(uint32_t{7});
//   writer.PutString("photos");
//   TENON_RETURN_IF_ERROR(channel.Send(writer.bytes(), {}, deadline));
//
//   ArchiveReader reader(message.bytes);
//   TENON_ASSIGN_OR_RETURN(uint32_t n, reader.Get<uint32_t>());
//   TENON_ASSIGN_OR_RETURN(std::string name, reader.GetString());
//   TENON_RETURN_IF_ERROR(reader.Finish());
//
// Both ends run on one machine and, as a rule, from one binary: values have its
// own byte order and there is no schema. For messages that must outlive a
// build, put Protocol Buffers or FlatBuffers into a string.

#ifndef TENON_IPC_CHANNEL_ARCHIVE_H_
#define TENON_IPC_CHANNEL_ARCHIVE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Enums for which every bit pattern is a value: those with a stated underlying
// type (only these can be initialised from an int) other than bool.
template <typename T>
concept ArchivableEnum = std::is_enum_v<T> && requires {
  T{0};
} && !std::is_same_v<std::underlying_type_t<T>, bool>;

// Types that are copied bytewise: numbers and enums. Structs and long double
// are excluded: they have padding, which would leak bytes of this process.
template <typename T>
concept ArchivableValue = (std::is_arithmetic_v<T> &&
                           !std::is_same_v<T, long double>) ||
                          ArchivableEnum<T>;

// Ownership: owns the bytes it has written. Thread-compatible. Cannot fail.
class ArchiveWriter {
 public:
  template <ArchivableValue T>
  void Put(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  // A length of 64 bits and the bytes; any byte may be in it.
  void PutString(absl::string_view value);

  // A status without its payloads.
  void PutStatus(absl::StatusCode code, absl::string_view message);
  void PutStatus(const absl::Status& status) {
    PutStatus(status.code(), status.message());
  }

  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Ownership: owns nothing; the bytes must outlive it.
// Threads: thread-compatible.
// Trust: the bytes may be anything. Nothing is read beyond them and nothing is
//   allocated that they do not contain.
// Failure: an error leaves the reader unchanged. Enums are read as bits: the
//   caller checks their range.
class ArchiveReader {
 public:
  explicit ArchiveReader(absl::string_view bytes) : left_(bytes) {}

  // Errors: kDataLoss if the bytes end before the value does, or if a bool is
  // neither 0 nor 1.
  template <ArchivableValue T>
  absl::StatusOr<T> Get() {
    T value = {};
    absl::Status status = Read(&value, sizeof(value));
    if (!status.ok()) return status;
    return value;
  }

  // Errors: kDataLoss if the bytes end before the string does.
  absl::StatusOr<std::string> GetString();

  // Errors: kDataLoss if the bytes end before the status does, if its code is
  // unknown, or if it is OK and has a message; `status` is then unchanged.
  absl::Status GetStatus(absl::Status* status);

  // Errors: kDataLoss if bytes are left over.
  absl::Status Finish() const;

  // The number of unread bytes.
  size_t left() const { return left_.size(); }

 private:
  absl::Status Read(void* to, size_t size);

  absl::string_view left_;
};

// Reading an arbitrary byte as a bool is undefined behaviour.
template <>
absl::StatusOr<bool> ArchiveReader::Get<bool>();

}  // namespace tenon

#endif  // TENON_IPC_CHANNEL_ARCHIVE_H_
