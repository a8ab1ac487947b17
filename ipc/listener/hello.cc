// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/listener/hello.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

constexpr auto kLastCode =
    static_cast<uint32_t>(absl::StatusCode::kUnauthenticated);

absl::Status NotAHello(absl::string_view why) {
  return absl::DataLossError(
      absl::StrCat("the peer's first message is not a handshake: ", why));
}

}  // namespace

std::string EncodeHello(const Hello& hello) {
  ArchiveWriter writer;
  writer.Put(kHelloMagic);
  writer.Put(static_cast<uint32_t>(hello.refusal.code()));
  writer.Put(hello.id.high);
  writer.Put(hello.id.low);
  writer.PutString(hello.refusal.message().substr(0, kMaxRefusalText));
  return std::move(writer).bytes();
}

absl::StatusOr<Hello> ParseHello(absl::string_view bytes) {
  ArchiveReader reader(bytes);
  Hello hello;
  TENON_ASSIGN_OR_RETURN(const uint32_t magic, reader.Get<uint32_t>());
  if (magic != kHelloMagic) {
    return NotAHello(absl::StrCat("bad magic 0x", absl::Hex(magic), ", want 0x",
                                  absl::Hex(kHelloMagic)));
  }
  TENON_ASSIGN_OR_RETURN(const uint32_t code, reader.Get<uint32_t>());
  TENON_ASSIGN_OR_RETURN(hello.id.high, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(hello.id.low, reader.Get<uint64_t>());
  TENON_ASSIGN_OR_RETURN(const std::string text, reader.GetString());
  TENON_RETURN_IF_ERROR(reader.Finish());
  if (code > kLastCode)
    return NotAHello(absl::StrCat("unknown status code ", code));
  if (text.size() > kMaxRefusalText) {
    return NotAHello(
        absl::StrCat("its text of ", text.size(), " bytes is too long"));
  }
  // Without a code the text would be lost.
  if (code == 0 && !text.empty())
    return NotAHello("it has a text but no status code");
  hello.refusal =
      absl::Status(static_cast<absl::StatusCode>(code), absl::CHexEscape(text));
  return hello;
}

}  // namespace tenon
