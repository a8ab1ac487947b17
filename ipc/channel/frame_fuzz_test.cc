// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Fuzz target of the parsers of a peer's bytes: the frame and the archive. Each
// is compared with a second, plainer implementation.
//
// The first byte of an input selects:
//   even: a byte, the number of descriptors, and the datagram;
//   odd:  a byte n, n bytes that select the types to read, and the archive.
//
// As a test it replays testdata/frame_fuzz and mutations of it. As a fuzzer:
// clang++ -std=c++20 -DTENON_FUZZ -fsanitize=fuzzer,address,undefined, with
// frame.cc and archive.cc.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/channel/frame.h"
#include "tenon/shm/base/check.h"

#ifndef TENON_FUZZ
#include "gtest/gtest.h"
#include "tenon/shm/testing/fuzz_testing.h"
#endif

namespace tenon {
namespace {

void CheckIsDataLoss(const absl::Status& status) {
  TENON_CHECK(absl::IsDataLoss(status), "an error is not kDataLoss");
  TENON_CHECK(!status.message().empty(), "an error has no message");
}

// ---- Frame ----

uint32_t Word(absl::string_view bytes, size_t index) {
  uint32_t word;
  std::memcpy(&word, bytes.data() + index * sizeof(word), sizeof(word));
  return word;
}

bool IsFrame(absl::string_view bytes, size_t fd_count) {
  if (bytes.size() < 16 || Word(bytes, 0) != 0x6e6f6e54 ||
      Word(bytes, 1) != 2 || Word(bytes, 2) != bytes.size() - 16 ||
      (Word(bytes, 3) & 0xffff) != fd_count) {
    return false;
  }
  const uint32_t kind = Word(bytes, 3) >> 16;
  if (kind == 2) return fd_count == 0 && bytes.size() == 16;
  if (kind != 1) return kind == 0;
  return fd_count > 0 && bytes.size() == 24 &&
         (Word(bytes, 4) != 0 || Word(bytes, 5) != 0);
}

void FuzzFrame(absl::string_view datagram, size_t fd_count) {
  const absl::StatusOr<Frame> frame = ParseFrame(datagram, fd_count);
  TENON_CHECK(frame.ok() == IsFrame(datagram, fd_count),
              "a frame was refused, or something else taken for one");
  if (!frame.ok()) return CheckIsDataLoss(frame.status());
  TENON_CHECK(frame->payload.data() == datagram.data() + 16 &&
                  frame->payload.size() == datagram.size() - 16,
              "the payload is not what follows the header");
  const bool in_segment = Word(datagram, 3) >> 16 == 1;
  TENON_CHECK((frame->segment_bytes != 0) == in_segment,
              "a segment where there is none, or the other way round");
  TENON_CHECK(frame->is_end == (Word(datagram, 3) >> 16 == 2),
              "an end where there is none, or the other way round");
}

// ---- Archive ----

enum class Color : uint8_t { kRed, kBlue };

// Reads from an archive and keeps its own account of the position.
class ArchiveFuzzer {
 public:
  explicit ArchiveFuzzer(absl::string_view bytes)
      : bytes_(bytes), reader_(bytes) {}

  void Read(uint8_t what) {
    switch (what % 8) {
      case 0:
        return Number<uint8_t>();
      case 1:
        return Number<uint16_t>();
      case 2:
        return Number<uint32_t>();
      case 3:
        return Number<uint64_t>();
      case 4:
        return Number<double>();
      case 5:
        return Number<Color>();
      case 6:
        return Bool();
      default:
        return String();
    }
  }

  void Finish() {
    TENON_CHECK(reader_.Finish().ok() == Left().empty(),
                "Finish() does not know what is left");
    TENON_CHECK(writer_.bytes() == bytes_.substr(0, at_),
                "what was read is not what is written");
  }

 private:
  absl::string_view Left() const { return bytes_.substr(at_); }

  template <typename T>
  void Check(const absl::StatusOr<T>& value, bool expected, size_t size) {
    TENON_CHECK(value.ok() == expected,
                "a value was refused that is there, or the other way round");
    if (value.ok()) at_ += size;
    if (!value.ok()) CheckIsDataLoss(value.status());
    // The position must be right, also after an error.
    ArchiveReader copy = reader_;
    const absl::StatusOr<uint8_t> next = copy.Get<uint8_t>();
    TENON_CHECK(next.ok() != Left().empty(), "the reader is elsewhere");
    TENON_CHECK(!next.ok() || *next == static_cast<uint8_t>(Left()[0]),
                "the reader is elsewhere");
  }

  template <typename T>
  void Number() {
    const absl::StatusOr<T> value = reader_.Get<T>();
    Check(value, Left().size() >= sizeof(T), sizeof(T));
    if (value.ok()) writer_.Put(*value);
  }

  void Bool() {
    const bool is_bool = !Left().empty() && (Left()[0] == 0 || Left()[0] == 1);
    const absl::StatusOr<bool> value = reader_.Get<bool>();
    Check(value, is_bool, 1);
    if (value.ok()) writer_.Put(*value);
  }

  void String() {
    uint64_t size = 0;
    bool is_string = Left().size() >= sizeof(size);
    if (is_string) {
      std::memcpy(&size, Left().data(), sizeof(size));
      is_string = Left().size() - sizeof(size) >= size;
    }
    const absl::StatusOr<std::string> value = reader_.GetString();
    Check(value, is_string, sizeof(size) + size);
    if (value.ok()) writer_.PutString(*value);
  }

  const absl::string_view bytes_;
  size_t at_ = 0;
  ArchiveReader reader_;
  ArchiveWriter writer_;
};

void FuzzArchive(absl::string_view script, absl::string_view bytes) {
  ArchiveFuzzer fuzzer(bytes);
  for (const char what : script) fuzzer.Read(static_cast<uint8_t>(what));
  fuzzer.Finish();
}

void FuzzOne(absl::string_view input) {
  if (input.size() < 2) return;
  const bool is_archive = input[0] & 1;
  const auto number = static_cast<uint8_t>(input[1]);
  input.remove_prefix(2);
  if (!is_archive) return FuzzFrame(input, number);
  FuzzArchive(input.substr(0, number),
              input.substr(std::min<size_t>(number, input.size())));
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

TEST(FrameFuzzTest, CorpusAndItsMutations) {
  ReplayCorpus(LLVMFuzzerTestOneInput, "ipc/channel/testdata/frame_fuzz",
               {.mutations = 300'000});
}

}  // namespace
}  // namespace tenon

#endif  // TENON_FUZZ
