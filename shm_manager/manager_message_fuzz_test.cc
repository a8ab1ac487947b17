// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of requests to the daemon of names, and of its replies. An
// accepted message is valid by a second implementation of the layout, and is
// encoded to the same bytes.
//
// As a test it replays testdata/manager_message_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with manager_message.cc, archive.cc and shm_name.cc.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm_manager/manager_message.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

template <typename T>
T At(absl::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > 200 || name[0] == '.') return false;
  for (const char c : name) {
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                      c == '-';
    if (!good) return false;
  }
  return true;
}

bool IsRequest(absl::string_view bytes) {
  if (bytes.size() < 8 || bytes.size() > 1024) return false;
  if (At<uint32_t>(bytes, 4) != 1) return true;  // Of another version.
  if (bytes.size() < 16) return false;
  const auto kind = At<uint32_t>(bytes, 0);
  const absl::string_view name = bytes.substr(16);
  if (At<uint64_t>(bytes, 8) != name.size()) return false;
  return kind == 2 || kind == 3 ? IsName(name)
                                : (kind == 1 || kind == 4) && name.empty();
}

bool IsReply(absl::string_view bytes) {
  if (bytes.size() < 16 || bytes.size() > 1024) return false;
  const auto code = At<int32_t>(bytes, 0);
  const auto length = At<uint64_t>(bytes, 4);
  if (code < 0 || code > 16 || length > bytes.size() - 16) return false;
  if (code == 0 && length != 0) return false;
  if (At<uint32_t>(bytes, 12 + length) != 1) return true;
  return length <= 512 && bytes.size() == 16 + length + 9 * 8;
}

void FuzzRequest(absl::string_view bytes) {
  const absl::StatusOr<ManagerRequest> request = ParseManagerRequest(bytes);
  TENON_CHECK(request.ok() == IsRequest(bytes),
              "a request was refused, or something else taken for one");
  if (!request.ok()) {
    TENON_CHECK(absl::IsDataLoss(request.status()), "not kDataLoss");
  } else if (request->version == ManagerVersion()) {
    TENON_CHECK(EncodeManagerRequest(*request) == bytes,
                "what was read is not what is written");
  }
}

void FuzzReply(absl::string_view bytes) {
  const absl::StatusOr<ManagerReply> reply = ParseManagerReply(bytes);
  TENON_CHECK(reply.ok() == IsReply(bytes),
              "a reply was refused, or something else taken for one");
  if (!reply.ok()) {
    TENON_CHECK(absl::IsDataLoss(reply.status()), "not kDataLoss");
  } else if (reply->version == ManagerVersion()) {
    TENON_CHECK(EncodeManagerReply(*reply) == bytes,
                "what was read is not what is written");
  }
}

}  // namespace
}  // namespace tenon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  tenon::FuzzRequest(bytes);
  tenon::FuzzReply(bytes);
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon {
namespace {

TEST(ManagerMessageFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput,
               "shm_manager/testdata/manager_message_fuzz",
               {.mutations = 300'000});
}

TEST(ManagerMessageFuzzTest, TheLongestMessagesFit) {
  const std::string name(200, 'n');
  EXPECT_LE(EncodeManagerRequest(
                {.kind = ManagerRequestKind::kKeepName, .name = name})
                .size(),
            kMaxManagerMessage);
  const std::string text(kMaxManagerMessage, 't');
  const std::string reply =
      EncodeManagerReply({.status = absl::InternalError(text)});
  EXPECT_LE(reply.size(), kMaxManagerMessage);
  const auto parsed = ParseManagerReply(reply);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->status.message(), text.substr(0, kMaxManagerText));
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ
