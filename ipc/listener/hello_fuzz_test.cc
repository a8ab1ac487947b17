// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of the handshake's message as a peer sends it, including its
// frame. An accepted hello must be valid by a second implementation of the
// layout, and be encoded to the same bytes.
//
// As a test it replays testdata/hello_fuzz and mutations of it. As a fuzzer:
// clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined, with
// hello.cc, frame.cc and archive.cc.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/frame.h"
#include "tenon/ipc/listener/hello.h"
#include "tenon/shm/base/check.h"

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

bool IsHello(absl::string_view bytes) {
  if (bytes.size() < 32 || At<uint32_t>(bytes, 0) != 0x6f6c6548) return false;
  const auto code = At<uint32_t>(bytes, 4);
  const auto length = At<uint64_t>(bytes, 24);
  return code <= 16 && length == bytes.size() - 32 && length <= 512 &&
         (code != 0 || length == 0);
}

bool IsPrintable(absl::string_view text) {
  for (const char c : text) {
    if (c < 0x20 || c > 0x7e) return false;
  }
  return true;
}

void FuzzHello(absl::string_view bytes) {
  const absl::StatusOr<Hello> hello = ParseHello(bytes);
  TENON_CHECK(hello.ok() == IsHello(bytes),
              "a hello was refused, or something else taken for one");
  if (!hello.ok()) {
    TENON_CHECK(absl::IsDataLoss(hello.status()), "not kDataLoss");
    return;
  }
  TENON_CHECK(hello->id.high == At<uint64_t>(bytes, 8) &&
                  hello->id.low == At<uint64_t>(bytes, 16),
              "another id");
  TENON_CHECK(
      static_cast<uint32_t>(hello->refusal.code()) == At<uint32_t>(bytes, 4),
      "another code");
  const absl::string_view text = hello->refusal.message();
  TENON_CHECK(IsPrintable(text), "the text is not printable");
  // Escaped again it may exceed the longest text.
  const std::string again = EncodeHello(*hello);
  TENON_CHECK(ParseHello(again).ok(), "what is written cannot be read");
  TENON_CHECK(!hello->refusal.ok() || again == bytes,
              "what was read is not what is written");
}

void FuzzOne(absl::string_view datagram) {
  FuzzHello(datagram);
  const absl::StatusOr<Frame> frame = ParseFrame(datagram, 1);
  if (frame.ok() && frame->segment_bytes == 0) FuzzHello(frame->payload);
}

}  // namespace
}  // namespace tenon

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tenon::FuzzOne({reinterpret_cast<const char*>(data), size});
  return 0;
}

#ifndef TENON_FUZZ

namespace tenon {
namespace {

TEST(HelloFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput, "ipc/listener/testdata/hello_fuzz",
               {.mutations = 300'000});
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ
