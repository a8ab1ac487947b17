// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/argument.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/archive.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/spawn/arguments/packed_call.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/arguments/tensor_parcel.h"

namespace tenon::spawn {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

enum class Colour : uint8_t { kRed, kBlue };
struct NoTraits {
  int x;
};

static_assert(Argument<int> && Argument<bool> && Argument<Colour>);
static_assert(Argument<std::vector<std::optional<std::string>>>);
static_assert(!Argument<NoTraits>);
static_assert(!Argument<std::vector<NoTraits>>);
static_assert(!Argument<int*>);
static_assert(!Argument<const char*>);

template <typename T>
absl::StatusOr<T> ThereAndBack(const T& value) {
  absl::StatusOr<PackedArguments> packed = PackCall<T>(value);
  if (!packed.ok()) return packed.status();
  absl::StatusOr<std::tuple<T>> back =
      UnpackCall<T>(packed->bytes, std::move(packed->fds));
  if (!back.ok()) return back.status();
  return std::get<0>(*std::move(back));
}

template <typename T>
void ExpectTravels(const T& value) {
  EXPECT_THAT(ThereAndBack(value), IsOkAndHolds(value))
      << ArgumentTraits<T>::Name();
}

TEST(ArgumentTest, PlainValuesTravel) {
  ExpectTravels(std::numeric_limits<int64_t>::min());
  ExpectTravels(uint8_t{255});
  ExpectTravels(-0.5);
  ExpectTravels(true);
  ExpectTravels('x');
  ExpectTravels(Colour::kBlue);
  ExpectTravels(std::string("a\0b", 3));
  ExpectTravels(std::string());
}

TEST(ArgumentTest, ContainersTravel) {
  ExpectTravels(std::vector<double>{1.5, -2, 3e300});
  ExpectTravels(std::vector<double>{});
  ExpectTravels(std::vector<bool>{true, false, true});
  ExpectTravels(std::vector<std::string>{"", "x", std::string(100'000, 'y')});
  ExpectTravels(std::vector<std::vector<int>>{{1}, {}, {2, 3}});
  ExpectTravels(std::optional<int>(7));
  ExpectTravels(std::optional<int>());
  ExpectTravels(std::make_pair(1, std::string("one")));
  ExpectTravels(std::map<std::string, double>{{"a", 1}, {"b", 2}});
  ExpectTravels(std::make_tuple(1, std::string("x"), 2.5));
}

TEST(ArgumentTest, NamesAreReadable) {
  using Everything =
      std::tuple<int, std::vector<std::optional<std::string>>, UniqueFd>;
  EXPECT_EQ(ArgumentTraits<Everything>::Name(),
            "std::tuple<int, std::vector<std::optional<std::string>>, "
            "tenon::UniqueFd>");
  EXPECT_THAT(ArgumentTraits<Colour>::Name(), HasSubstr("Colour"));
}

TEST(ArgumentTest, DescriptorsTravelAsDuplicatesThatAreNotInherited) {
  const size_t before = CountOpenFds();
  {
    const UniqueFd fd(dup(STDERR_FILENO));
    absl::StatusOr<PackedArguments> packed =
        PackCall<std::vector<int>, UniqueFd>(std::vector<int>{1}, fd);
    ASSERT_THAT(packed, IsOk());
    EXPECT_TRUE(fd.valid());
    ASSERT_EQ(packed->fds.size(), 1u);
    EXPECT_NE(packed->fds[0].get(), fd.get());
    auto back = UnpackCall<std::vector<int>, UniqueFd>(packed->bytes,
                                                       std::move(packed->fds));
    ASSERT_THAT(back, IsOk());
    EXPECT_TRUE(std::get<1>(*back).valid());
  }
  EXPECT_EQ(CountOpenFds(), before);
}

TEST(ArgumentTest, AMovedArgumentIsDestroyed) {
  const size_t before = CountOpenFds();
  UniqueFd fd(dup(STDERR_FILENO));
  EXPECT_THAT(PackCall<UniqueFd>(std::move(fd)), IsOk());
  EXPECT_EQ(CountOpenFds(), before);
}

TEST(ArgumentTest, DescriptorThatIsNotOpenIsRefused) {
  EXPECT_THAT(
      PackCall<UniqueFd>(UniqueFd()),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr(
                   "cannot pack an argument: file descriptor -1 is not open")));
}

TEST(ArgumentTest, OtherSignatureIsRefusedNamingBoth) {
  const auto packed = PackCall<int, std::string>(1, std::string("x"));
  ASSERT_THAT(packed, IsOk());
  EXPECT_THAT(
      (UnpackCall<int, double>(packed->bytes, {})),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("takes (int, double), got (int, std::string)")));
  EXPECT_THAT(UnpackCall<int>("", {}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("got no typed arguments")));
}

TEST(ArgumentTest, ShortenedOrLengthenedBytesAreRefused) {
  using T = std::tuple<std::vector<double>, std::optional<std::string>>;
  const auto packed = PackCall<T>(T{{1, 2}, "x"});
  ASSERT_THAT(packed, IsOk());
  for (size_t size = 0; size < packed->bytes.size(); ++size) {
    EXPECT_THAT(UnpackCall<T>(packed->bytes.substr(0, size), {}).status(),
                Not(IsOk()))
        << size;
  }
  EXPECT_THAT(UnpackCall<T>(packed->bytes + "x", {}),
              StatusIs(absl::StatusCode::kDataLoss));
  std::vector<UniqueFd> one;
  one.emplace_back(dup(STDERR_FILENO));
  EXPECT_THAT(UnpackCall<T>(packed->bytes, std::move(one)),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("surplus")));
}

// A call of (int) with a parcel as a peer may send it.
std::string CallWithParcel(const std::string& parcel) {
  ArchiveWriter head;
  head.PutString(parcel);
  std::string bytes = PackCall<int>(1)->bytes;
  return bytes.replace(sizeof(uint32_t), sizeof(uint64_t), head.bytes());
}

// Without a record, or with that of an empty message.
std::string ParcelOf(uint32_t fds) {
  ArchiveWriter parcel;
  parcel.PutString("");
  parcel.PutString("");
  parcel.Put(fds);
  return parcel.bytes();
}
std::string EmptyParcel() {
  ArchiveWriter parcel;
  std::vector<int> fds;
  EXPECT_THAT(
      WriteParcel(TensorMessage(), TensorHold::kUntilClaimed, parcel, fds),
      IsOk());
  EXPECT_TRUE(fds.empty());
  return parcel.bytes();
}

std::vector<UniqueFd> OneFd() {
  std::vector<UniqueFd> one;
  one.emplace_back(dup(STDERR_FILENO));
  return one;
}

TEST(ArgumentTest, AParcelThatDoesNotFitItsDescriptorsIsRefused) {
  EXPECT_THAT(UnpackCall<int>(CallWithParcel(""), {}), IsOk());
  EXPECT_THAT(UnpackCall<int>(CallWithParcel(EmptyParcel()), {}), IsOk());
  for (const std::string& parcel : {std::string(), EmptyParcel()}) {
    EXPECT_THAT(UnpackCall<int>(CallWithParcel(parcel), OneFd()),
                StatusIs(absl::StatusCode::kDataLoss,
                         HasSubstr("1 surplus descriptors")));
  }
  EXPECT_THAT(UnpackCall<int>(CallWithParcel("parcel"), {}),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(UnpackCall<int>(CallWithParcel(EmptyParcel() + "x"), {}),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(UnpackCall<int>(CallWithParcel(ParcelOf(2)), OneFd()),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("1 descriptors; want 2")));
  EXPECT_THAT(
      UnpackCall<int>(CallWithParcel(ParcelOf(1)), OneFd()),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("bad record header")));
}

TEST(ArgumentTest, AParcelOfAnotherVersionIsRefused) {
  std::string parcel = EmptyParcel();
  ++parcel[sizeof(uint64_t) + 2];  // Behind the length and the magic.
  EXPECT_THAT(UnpackCall<int>(CallWithParcel(parcel), {}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("; this build of Tenon has version")));
}

TEST(ArgumentTest, TheSignatureIsComparedBeforeTensorsAreClaimed) {
  EXPECT_THAT(UnpackCall<double>(CallWithParcel("parcel"), OneFd()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("takes (double), got (int)")));
}

TEST(ArgumentTest, CountOfElementsWithoutBytesIsNotTrusted) {
  ExpectTravels(std::vector<std::tuple<>>(1000));
  const std::string many(8, '\x7f');
  ArgumentReader reader(many, {});
  EXPECT_THAT(
      ArgumentTraits<std::vector<std::tuple<>>>::Unpack(reader),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("without bytes")));
  using Map = std::map<std::tuple<>, std::tuple<>>;
  ArgumentReader again(many, {});
  EXPECT_THAT(ArgumentTraits<Map>::Unpack(again),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(ArgumentTest, TextTravelsAsAString) {
  static_assert(std::is_same_v<TravelsAs<const char(&)[4]>, std::string>);
  static_assert(std::is_same_v<TravelsAs<const char*>, std::string>);
  static_assert(std::is_same_v<TravelsAs<std::string_view>, std::string>);
  static_assert(std::is_same_v<TravelsAs<std::string&>, std::string>);
  static_assert(std::is_same_v<TravelsAs<const int&>, int>);
  const auto packed = PackCall<std::string>("text");
  ASSERT_THAT(packed, IsOk());
  EXPECT_EQ(std::get<0>(*UnpackCall<std::string>(packed->bytes, {})), "text");
}

}  // namespace
}  // namespace tenon::spawn
