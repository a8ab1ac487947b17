// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Functions with typed parameters, run in children.

#include "tenon/spawn/process/start.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/sync/barrier.h"
#include "tenon/ipc/sync/condition.h"
#include "tenon/ipc/sync/event.h"
#include "tenon/ipc/sync/mutex.h"
#include "tenon/ipc/sync/semaphore.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/pages/mapping.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/value/array.h"
#include "tenon/shm/value/value.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/arguments/ipc_arguments.h"
#include "tenon/spawn/arguments/plain_arguments.h"
#include "tenon/spawn/arguments/shm_arguments.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/settings/process_options.h"
#include "tenon/spawn/testing/child_testing.h"

namespace tenon::spawn {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class StartTest : public ChildTest {};

absl::Status Check(bool good, const char* what) {
  return good ? absl::OkStatus() : absl::InternalError(what);
}

absl::Status TakePlain(int index, std::string text, std::vector<double> rates,
                       const int& number, bool flag) {
  TENON_RETURN_IF_ERROR(Check(index >= 0 && index < 3, "index"));
  TENON_RETURN_IF_ERROR(Check(text == "resnet", "text"));
  TENON_RETURN_IF_ERROR(
      Check(rates == std::vector<double>({0.5, 0.25}), "rates"));
  return Check(number == 7 && flag, "number, flag");
}
TENON_SPAWN_FUNCTION(TakePlain);

// Functions that do not compile as a TENON_SPAWN_FUNCTION.
[[maybe_unused]] absl::Status TakeNoIndex(std::string) {
  return absl::OkStatus();
}
struct NoFunction {
  absl::Status Member(int) { return absl::OkStatus(); }
};
static_assert(CanBeSpawned<TakePlain>);
static_assert(!CanBeSpawned<TakeNoIndex>);
static_assert(!CanBeSpawned<&NoFunction::Member>);
static_assert(Parameter<std::string> && Parameter<const std::string&>);
static_assert(!Parameter<std::string&>);

TEST_F(StartTest, PlainArgumentsByNameAndByFunction) {
  const std::vector<double> rates = {0.5, 0.25};
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes by_name, Start(3, "TakePlain", {}, "resnet", rates, 7, true));
  EXPECT_THAT(by_name.Join(Watchdog()), IsOk());
  // 7.0 and 1 are converted, as in any call.
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes by_function,
      Start(2, TakePlain, {}, "resnet", rates, 7.0, true));
  EXPECT_THAT(by_function.Join(Watchdog()), IsOk());
}

TEST_F(StartTest, WrongTypesAreToldAtTheStart) {
  EXPECT_THAT(Start(1, "TakePlain", {}, "resnet", 0.5),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("cannot start 'TakePlain'"),
                             HasSubstr("(std::string, std::vector<double>, "
                                       "int, bool)"),
                             HasSubstr("got (std::string, double)"))));
}

TEST_F(StartTest, UnknownFunctionIsToldAtTheStart) {
  EXPECT_THAT(Start(2, "TakeNothing", {}, 1),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("TakePlain")));
}

absl::Status NotRegistered(int) { return absl::OkStatus(); }

TEST_F(StartTest, FunctionThatIsNotRegisteredIsToldAtTheStart) {
  EXPECT_THAT(
      Start(2, NotRegistered, {}),
      StatusIs(absl::StatusCode::kNotFound, HasSubstr("TENON_SPAWN_FUNCTION")));
}

absl::Status RawEntry(Child&) { return absl::OkStatus(); }
TENON_SPAWN_ENTRY("raw-entry", RawEntry);

TEST_F(StartTest, EntriesOfTheOtherKindAreToldApart) {
  EXPECT_THAT(Start(1, "raw-entry", {}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("not typed arguments")));
  TENON_ASSERT_OK_AND_ASSIGN(Process raw,
                             Process::Start({.entry = "TakePlain"}));
  EXPECT_THAT(raw.Join(Watchdog()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("got no typed arguments")));
}

TEST_F(StartTest, OptionsThatStartFillsInMustBeEmpty) {
  EXPECT_THAT(Start(1, "TakePlain", {.argument = "x"}, "resnet",
                    std::vector<double>(), 7, true),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

// A user's type.
struct Camera {
  int id;
  UniqueFd fd;
};

}  // namespace

template <>
struct ArgumentTraits<Camera> {
  static std::string Name() { return "Camera"; }
  static absl::Status Pack(const Camera& camera, ArgumentWriter& to) {
    to.Put(camera.id);
    return to.PutFd(camera.fd.get());
  }
  static absl::StatusOr<Camera> Unpack(ArgumentReader& from) {
    TENON_ASSIGN_OR_RETURN(const int id, from.Get<int>());
    TENON_ASSIGN_OR_RETURN(UniqueFd fd, from.TakeFd());
    return Camera{id, std::move(fd)};
  }
};

namespace {

void WriteToCamera(int index, const Camera& camera) {
  const std::string text = absl::StrCat(camera.id, "/", index);
  if (write(camera.fd.get(), text.data(), text.size()) < 0) _exit(9);
}
TENON_SPAWN_FUNCTION(WriteToCamera);

TEST_F(StartTest, TypesOfOnesOwnAndFunctionsThatReturnNothing) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd reading(ends[0]);
  Camera camera = {42, UniqueFd(ends[1])};
  TENON_ASSERT_OK_AND_ASSIGN(
      Process one, StartProcess("WriteToCamera", {.index = 5}, camera));
  EXPECT_THAT(one.Join(Watchdog()), IsOk());
  char text[8] = {};
  EXPECT_EQ(read(reading.get(), text, sizeof(text)), 4);
  EXPECT_STREQ(text, "42/5");
}

absl::Status UseMemory(int index, Segment segment, Tensor whole, Tensor row,
                       Value<int64_t> count, Array<int32_t> slots) {
  TENON_ASSIGN_OR_RETURN(const WritableMapping bytes, segment.MapWritable());
  bytes.data()[index] = static_cast<std::byte>('a' + index);
  TENON_RETURN_IF_ERROR(
      Check(whole.storage() == row.storage(), "one storage became two"));
  TENON_ASSIGN_OR_RETURN(const absl::Span<float> all, whole.data<float>());
  TENON_ASSIGN_OR_RETURN(const absl::Span<float> second, row.data<float>());
  TENON_RETURN_IF_ERROR(Check(&all[3] == &second[0], "the row is elsewhere"));
  all[static_cast<size_t>(index)] = static_cast<float>(index) + 0.5f;
  TENON_RETURN_IF_ERROR(count.FetchAdd(1).status());
  return slots.Store(static_cast<size_t>(index), 100 + index);
}
TENON_SPAWN_FUNCTION(UseMemory);

TEST_F(StartTest, MemoryIsShared) {
  TENON_ASSERT_OK_AND_ASSIGN(const Segment segment,
                             Segment::CreateSharedWritable(4096));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor whole,
                             Tensor::CreateShared(kDtypeOf<float>, {2, 3}));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor row, whole.Select(0, 1));
  TENON_ASSERT_OK_AND_ASSIGN(const auto count, Value<int64_t>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(const auto slots, Array<int32_t>::Create(3));
  TENON_ASSERT_OK_AND_ASSIGN(Processes three, Start(3, UseMemory, {}, segment,
                                                    whole, row, count, slots));
  ASSERT_THAT(three.Join(Watchdog()), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const auto bytes, segment.MapReadOnly());
  EXPECT_EQ(static_cast<char>(bytes.data()[2]), 'c');
  TENON_ASSERT_OK_AND_ASSIGN(const auto all, whole.data<const float>());
  EXPECT_EQ(all[1], 1.5f);
  EXPECT_THAT(count.Load(), IsOkAndHolds(3));
  EXPECT_THAT(slots.Load(2), IsOkAndHolds(102));
}

absl::Status UseLocks(int index, Mutex mutex, Semaphore slots, Event go,
                      Condition changed, Barrier together, Value<int> count) {
  TENON_RETURN_IF_ERROR(go.Wait(Watchdog()));
  TENON_RETURN_IF_ERROR(slots.Acquire(Watchdog()));
  TENON_RETURN_IF_ERROR(together.Wait(Watchdog()).status());
  TENON_ASSIGN_OR_RETURN(Mutex::Guard guard, mutex.Lock(Watchdog()));
  TENON_ASSIGN_OR_RETURN(int* const value, count.get());
  ++*value;
  return index == 0 ? changed.WaitFor(
                          guard, [&] { return *value == 2; }, Watchdog())
                    : changed.NotifyAll(guard).status();
}
TENON_SPAWN_FUNCTION(UseLocks);

TEST_F(StartTest, LocksAreShared) {
  TENON_ASSERT_OK_AND_ASSIGN(const Mutex mutex, Mutex::Create());
  TENON_ASSERT_OK_AND_ASSIGN(const Semaphore slots, Semaphore::Create(2));
  TENON_ASSERT_OK_AND_ASSIGN(const Event go, Event::Create());
  TENON_ASSERT_OK_AND_ASSIGN(const Condition changed, Condition::Create());
  TENON_ASSERT_OK_AND_ASSIGN(const Barrier together, Barrier::Create(2));
  TENON_ASSERT_OK_AND_ASSIGN(const auto count, Value<int>::Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      Processes two,
      Start(2, UseLocks, {}, mutex, slots, go, changed, together, count));
  EXPECT_THAT(go.Set(), IsOk());
  EXPECT_THAT(two.Join(Watchdog()), IsOk());
  EXPECT_THAT(count.Load(), IsOkAndHolds(2));
}

static_assert(IsGivenAway<Channel>());
static_assert(IsGivenAway<std::vector<Channel>>());
static_assert(IsGivenAway<std::optional<std::pair<int, Channel>>>());
static_assert(!IsGivenAway<std::vector<std::string>>());

absl::Status EchoOnce(int, Channel channel) {
  TENON_ASSIGN_OR_RETURN(const Message message, channel.Receive(Watchdog()));
  return channel.Send(message.bytes, {}, Watchdog());
}
TENON_SPAWN_FUNCTION(EchoOnce);

TEST_F(StartTest, ChannelIsGivenToOne) {
  TENON_ASSERT_OK_AND_ASSIGN(auto ends, Channel::CreatePair());
  TENON_ASSERT_OK_AND_ASSIGN(Processes one,
                             Start(1, "EchoOnce", {}, std::move(ends.second)));
  EXPECT_THAT(Ping(ends.first), IsOk());
  EXPECT_THAT(one.Join(Watchdog()), IsOk());
  // Only the child had it.
  EXPECT_THAT(ends.first.Receive(Watchdog()),
              StatusIs(absl::StatusCode::kUnavailable));
  TENON_ASSERT_OK_AND_ASSIGN(auto more, Channel::CreatePair());
  EXPECT_THAT(
      Start(2, "EchoOnce", {}, std::move(more.second)),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("a Channel can be given to only one process")));
}

absl::Status CountTexts(int, std::vector<std::string> texts) {
  return Check(texts.size() == 100'000 && texts[99'999] == "text 99999",
               "texts");
}
TENON_SPAWN_FUNCTION(CountTexts);

TEST_F(StartTest, LargeArguments) {
  std::vector<std::string> texts;
  for (int i = 0; i < 100'000; ++i) texts.push_back(absl::StrCat("text ", i));
  TENON_ASSERT_OK_AND_ASSIGN(Processes two, Start(2, CountTexts, {}, texts));
  EXPECT_THAT(two.Join(Watchdog()), IsOk());
}

}  // namespace
}  // namespace tenon::spawn
