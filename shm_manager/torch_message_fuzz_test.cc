// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of torch's messages to its manager. An accepted message is valid
// by a second implementation of the layout, and its fields are encoded to the
// same bytes, as far as they have a meaning.
//
// As a test it replays testdata/torch_message_fuzz and mutations of it. As a
// fuzzer: clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined,
// with torch_message.cc and shm_name.cc.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <regex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm_manager/torch_message.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

// As torch declares it.
struct AllocInfo {
  int32_t pid;
  char free;
  char filename[60];
};
static_assert(sizeof(AllocInfo) == kTorchMessageBytes);

bool IsMessage(absl::string_view bytes) {
  if (bytes.size() != sizeof(AllocInfo)) return false;
  AllocInfo info;
  std::memcpy(&info, bytes.data(), sizeof(info));
  if (info.pid < 1 || (info.free != 0 && info.free != 1)) return false;
  size_t length = 0;
  for (; length < 60 && info.filename[length] != '\0'; ++length) {
    const char c = info.filename[length];
    if (length == 0) {
      if (c != '/') return false;
      continue;
    }
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                      (c == '.' && length > 1);
    if (!good) return false;
  }
  return length > 1 && length < 60;
}

}  // namespace
}  // namespace tenon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<tenon::TorchMessage> message =
      tenon::ParseTorchMessage(bytes);
  TENON_CHECK(message.ok() == tenon::IsMessage(bytes),
              "a message was refused, or something else taken for one");
  if (!message.ok()) {
    TENON_CHECK(absl::IsDataLoss(message.status()), "not kDataLoss");
    return 0;
  }
  const std::string again = tenon::EncodeTorchMessage(*message);
  const size_t meant = 5 + 1 + message->name.size() + 1;
  TENON_CHECK(again.size() == tenon::kTorchMessageBytes &&
                  again.substr(0, meant) == bytes.substr(0, meant),
              "what was read is not what is written");
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon {
namespace {

TEST(TorchMessageFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput,
               "shm_manager/testdata/torch_message_fuzz",
               {.mutations = 300'000});
}

TEST(TorchMessageFuzzTest, TheLongestNameFits) {
  const std::string name(kMaxTorchNameLength, 'n');
  const auto parsed =
      ParseTorchMessage(EncodeTorchMessage({.pid = 7, .name = name}));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->name, name);
  EXPECT_EQ(parsed->pid, 7);
  EXPECT_FALSE(parsed->is_free);
}

TEST(TorchMessageFuzzTest, NamesOfTorchAreRecognised) {
  const std::regex pattern("torch_[0-9]+(_[0-9]+){1,2}");
  for (const std::string name :
       {"torch_1_2", "torch_123_456_7", "torch_1_2_3_4", "torch_1_", "torch_1",
        "torch_", "torch__1_2", "torch_a_1", "torch_1_2_", "torch_1_2x",
        "xtorch_1_2", "torch_1_2_3x", "Torch_1_2", "", "torch_1__2"}) {
    EXPECT_EQ(IsTorchName(name), std::regex_match(name, pattern)) << name;
  }
  EXPECT_FALSE(IsTorchName("torch_1_" + std::string(60, '1')));
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ
