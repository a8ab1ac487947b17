// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/archive.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

enum class Color : uint8_t { kRed = 1, kBlue = 2 };
enum Unscoped : int16_t { kMinusOne = -1 };
enum OpenRange { kZero, kOne };
enum class Flag : bool { kOff, kOn };
struct Padded {
  char c;
  int i;
};

static_assert(ArchivableValue<bool>);
static_assert(ArchivableValue<char16_t>);
static_assert(ArchivableValue<double>);
static_assert(ArchivableValue<Color>);
static_assert(ArchivableValue<Unscoped>);
// Its values are 0 and 1, and to read other bits as one is undefined.
static_assert(!ArchivableValue<OpenRange>);
static_assert(!ArchivableValue<Flag>);
static_assert(!ArchivableValue<Padded>);
static_assert(!ArchivableValue<long double>);
static_assert(!ArchivableValue<const char*>);

template <typename T>
class ArchiveNumberTest : public ::testing::Test {};
using ArchivedNumbers =
    ::testing::Types<bool, char, int8_t, uint8_t, int16_t, uint16_t, int32_t,
                     uint32_t, int64_t, uint64_t, float, double>;
TYPED_TEST_SUITE(ArchiveNumberTest, ArchivedNumbers);

TYPED_TEST(ArchiveNumberTest, GoesThere) {
  using Limits = std::numeric_limits<TypeParam>;
  for (const TypeParam value :
       {TypeParam{}, TypeParam{1}, Limits::lowest(), Limits::max()}) {
    ArchiveWriter writer;
    writer.Put(value);
    EXPECT_EQ(writer.bytes().size(), sizeof(TypeParam));
    ArchiveReader reader(writer.bytes());
    EXPECT_THAT(reader.Get<TypeParam>(), IsOkAndHolds(value));
    EXPECT_THAT(reader.Finish(), IsOk());
  }
}

TEST(ArchiveTest, EnumsGoThere) {
  ArchiveWriter writer;
  writer.Put(Color::kBlue);
  writer.Put(kMinusOne);
  EXPECT_EQ(writer.bytes().size(), 3u);
  ArchiveReader reader(writer.bytes());
  EXPECT_THAT(reader.Get<Color>(), IsOkAndHolds(Color::kBlue));
  EXPECT_THAT(reader.Get<Unscoped>(), IsOkAndHolds(kMinusOne));
}

TEST(ArchiveTest, EnumIsReadAsItsBits) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    EXPECT_THAT(ArchiveReader(bytes).Get<Color>(),
                IsOkAndHolds(static_cast<Color>(byte)));
  }
}

TEST(ArchiveTest, NotANumberKeepsItsBits) {
  ArchiveWriter writer;
  writer.Put(std::numeric_limits<double>::quiet_NaN());
  ArchiveReader reader(writer.bytes());
  TENON_ASSERT_OK_AND_ASSIGN(const double value, reader.Get<double>());
  EXPECT_TRUE(std::isnan(value));
}

TEST(ArchiveTest, BoolIsZeroOrOneAndNothingElse) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string bytes(1, static_cast<char>(byte));
    ArchiveReader reader(bytes);
    if (byte <= 1) {
      EXPECT_THAT(reader.Get<bool>(), IsOkAndHolds(byte == 1));
      EXPECT_THAT(reader.Finish(), IsOk());
      continue;
    }
    EXPECT_THAT(reader.Get<bool>(), StatusIs(absl::StatusCode::kDataLoss,
                                             HasSubstr("a bool has value " +
                                                       std::to_string(byte))));
    // The byte is still unread.
    EXPECT_THAT(reader.Get<uint8_t>(), IsOkAndHolds(byte));
  }
}

TEST(ArchiveTest, StringsGoThere) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::string large(1 << 20, 'x');
  ArchiveWriter writer;
  writer.PutString("");
  writer.PutString(absl::string_view());
  writer.PutString(all);
  writer.PutString(large);
  EXPECT_EQ(writer.bytes().size(), 4 * 8 + all.size() + large.size());
  ArchiveReader reader(writer.bytes());
  EXPECT_THAT(reader.GetString(), IsOkAndHolds(""));
  EXPECT_THAT(reader.GetString(), IsOkAndHolds(""));
  EXPECT_THAT(reader.GetString(), IsOkAndHolds(all));
  EXPECT_THAT(reader.GetString(), IsOkAndHolds(large));
  EXPECT_THAT(reader.Finish(), IsOk());
}

std::string ArchiveOf(int32_t code, absl::string_view message) {
  ArchiveWriter writer;
  writer.Put(code);
  writer.PutString(message);
  return std::move(writer).bytes();
}

TEST(ArchiveTest, StatusesTravel) {
  for (int code = 0; code <= 16; ++code) {
    const absl::Status sent(static_cast<absl::StatusCode>(code),
                            std::string("a\0b", 3));
    ArchiveWriter writer;
    writer.PutStatus(sent);
    writer.Put(uint8_t{7});
    ArchiveReader reader(writer.bytes());
    absl::Status got = absl::UnknownError("another");
    EXPECT_THAT(reader.GetStatus(&got), IsOk());
    EXPECT_EQ(got, sent);
    EXPECT_THAT(reader.Get<uint8_t>(), IsOkAndHolds(7));
  }
}

TEST(ArchiveTest, StatusLeavesItsPayloadsBehind) {
  absl::Status sent = absl::AbortedError("stop");
  sent.SetPayload("url", absl::Cord("payload"));
  ArchiveWriter writer;
  writer.PutStatus(sent);
  ArchiveReader reader(writer.bytes());
  absl::Status got;
  EXPECT_THAT(reader.GetStatus(&got), IsOk());
  EXPECT_EQ(got, absl::AbortedError("stop"));
}

TEST(ArchiveTest, AMalformedStatusIsDataLossAndChangesNothing) {
  const std::string whole = ArchiveOf(3, "text");
  for (const std::string& bytes :
       {ArchiveOf(-1, ""), ArchiveOf(17, ""), ArchiveOf(0, "x"),
        whole.substr(0, 3), whole.substr(0, whole.size() - 1)}) {
    ArchiveReader reader(bytes);
    absl::Status status = absl::AbortedError("before");
    EXPECT_THAT(reader.GetStatus(&status),
                StatusIs(absl::StatusCode::kDataLoss));
    EXPECT_EQ(status, absl::AbortedError("before"));
    EXPECT_EQ(reader.left(), bytes.size());
  }
}

TEST(ArchiveTest, BytesMoveOut) {
  ArchiveWriter writer;
  writer.PutString("a string that is too long to be stored in place");
  const char* data = writer.bytes().data();
  const std::string bytes = std::move(writer).bytes();
  EXPECT_EQ(bytes.data(), data);
}

TEST(ArchiveTest, EmptyArchive) {
  EXPECT_EQ(ArchiveWriter().bytes(), "");
  ArchiveReader reader{absl::string_view()};
  EXPECT_THAT(reader.Finish(), IsOk());
  EXPECT_THAT(reader.Get<char>(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(reader.GetString(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ArchiveTest, LeftOversAreDataLoss) {
  ArchiveReader reader("abc");
  EXPECT_THAT(reader.Get<char>(), IsOkAndHolds('a'));
  EXPECT_THAT(reader.Finish(), StatusIs(absl::StatusCode::kDataLoss,
                                        HasSubstr("2 bytes are left over")));
}

// One archive with every type, and its reader.
std::string Everything() {
  ArchiveWriter writer;
  writer.Put(uint32_t{7});
  writer.PutString("photos");
  writer.Put(true);
  writer.Put(0.5);
  writer.PutString("");
  writer.Put(Color::kRed);
  return std::move(writer).bytes();
}

absl::Status ReadEverything(ArchiveReader* reader) {
  if (auto value = reader->Get<uint32_t>(); !value.ok()) return value.status();
  if (auto value = reader->GetString(); !value.ok()) return value.status();
  if (auto value = reader->Get<bool>(); !value.ok()) return value.status();
  if (auto value = reader->Get<double>(); !value.ok()) return value.status();
  if (auto value = reader->GetString(); !value.ok()) return value.status();
  if (auto value = reader->Get<Color>(); !value.ok()) return value.status();
  return reader->Finish();
}

TEST(ArchiveTest, CutOffAtEveryByteIsDataLoss) {
  const std::string whole = Everything();
  for (size_t size = 0; size < whole.size(); ++size) {
    // A copy of its own size, for AddressSanitizer to guard.
    const std::string cut = whole.substr(0, size);
    ArchiveReader reader(cut);
    EXPECT_THAT(ReadEverything(&reader), StatusIs(absl::StatusCode::kDataLoss))
        << size;
  }
  ArchiveReader reader(whole);
  EXPECT_THAT(ReadEverything(&reader), IsOk());
}

TEST(ArchiveTest, HugeLengthIsDataLossAndAllocatesNothing) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  for (const uint64_t size :
       {uint64_t{4}, uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 62,
        uint64_t{1} << 63, kMax - 8, kMax - 7, kMax}) {
    ArchiveWriter writer;
    writer.Put(size);
    ArchiveReader reader = ArchiveReader(writer.bytes());
    EXPECT_THAT(reader.GetString(),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("of " + std::to_string(size) + " bytes")));
    // The bytes are still unread, and readable as another type.
    EXPECT_THAT(reader.Get<uint64_t>(), IsOkAndHolds(size));
  }
}

TEST(ArchiveTest, StringOneByteShortIsDataLossAndStays) {
  ArchiveWriter writer;
  writer.Put(uint64_t{4});
  const std::string bytes = writer.bytes() + "abc";
  ArchiveReader reader(bytes);
  EXPECT_THAT(reader.GetString(),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("of 4 bytes exceeds the 3 bytes left")));
  EXPECT_THAT(reader.Get<uint64_t>(), IsOkAndHolds(4u));
  EXPECT_THAT(reader.Get<char>(), IsOkAndHolds('a'));
}

TEST(ArchiveTest, ValueThatDoesNotFitStays) {
  ArchiveReader reader("abc");
  EXPECT_THAT(reader.Get<uint32_t>(),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("of 4 bytes exceeds the 3 bytes left")));
  EXPECT_THAT(reader.Get<char>(), IsOkAndHolds('a'));
}

}  // namespace
}  // namespace tenon
