// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/messages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/data/plugin_version.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::HasSubstr;
using ::testing::SizeIs;

WorkerSetup SomeSetup() {
  return {.plugin = "libphotos.so",
          .dataset = "Photos",
          .arguments = std::string("with\0nul", 8),
          .spec = "image: float32[3, 4]",
          .shards = 5,
          .lanes = 3,
          .batch_size = 64,
          .prefetch = 3,
          .seed = 7,
          .on_error = OnSampleError::kSkip,
          .drop_last = true,
          .strategy = SharingStrategy::kFileSystem,
          .name_prefix = "tenon-x",
          .worker_init = "OneCoreEach",
          .workers = 4,
          .threads = 5,
          .rank = 2,
          .world_size = 3,
          .loader = {8, 9},
          .trace_events = 64};
}

BatchNote SomeNote() {
  return {.status = absl::AbortedError("no"),
          .skipped = {{.position = 8,
                       .index = 7,
                       .status = absl::DataLossError("rotten"),
                       .replaced_by = 6}}};
}

TEST(MessagesTest, SetupComesBack) {
  const WorkerSetup setup = SomeSetup();
  TENON_ASSERT_OK_AND_ASSIGN(const auto back, DecodeWorkerSetup(Encode(setup)));
  EXPECT_EQ(back.plugin, setup.plugin);
  EXPECT_EQ(back.dataset, setup.dataset);
  EXPECT_EQ(back.arguments, setup.arguments);
  EXPECT_EQ(back.spec, setup.spec);
  EXPECT_EQ(back.shards, setup.shards);
  EXPECT_EQ(back.lanes, setup.lanes);
  EXPECT_EQ(back.batch_size, setup.batch_size);
  EXPECT_EQ(back.prefetch, setup.prefetch);
  EXPECT_EQ(back.seed, setup.seed);
  EXPECT_EQ(back.on_error, setup.on_error);
  EXPECT_EQ(back.drop_last, setup.drop_last);
  EXPECT_EQ(back.strategy, setup.strategy);
  EXPECT_EQ(back.name_prefix, setup.name_prefix);
  EXPECT_EQ(back.worker_init, setup.worker_init);
  EXPECT_EQ(back.workers, setup.workers);
  EXPECT_EQ(back.threads, setup.threads);
  EXPECT_EQ(back.rank, setup.rank);
  EXPECT_EQ(back.world_size, setup.world_size);
  EXPECT_EQ(back.loader, setup.loader);
  EXPECT_EQ(back.trace_events, setup.trace_events);
}

TEST(MessagesTest, ASetupOfAnotherVersionIsRefused) {
  std::string bytes = Encode(SomeSetup());
  bytes.replace(bytes.find(kPluginVersion), sizeof(kPluginVersion) - 1,
                "9.9.9/9");
  EXPECT_THAT(DecodeWorkerSetup(bytes),
              StatusIs(StatusCode::kFailedPrecondition,
                       HasSubstr("of Tenon, the loader's with 9.9.9/9")));
}

TEST(MessagesTest, SetupsOutOfRangeAreRefused) {
  WorkerSetup setup = SomeSetup();
  setup.batch_size = 0;
  EXPECT_THAT(DecodeWorkerSetup(Encode(setup)),
              StatusIs(StatusCode::kDataLoss, HasSubstr("batch_size 0")));
  setup = SomeSetup();
  setup.threads = 0;
  EXPECT_THAT(DecodeWorkerSetup(Encode(setup)),
              StatusIs(StatusCode::kDataLoss, HasSubstr("threads 0")));
  setup = SomeSetup();
  setup.prefetch = 0;
  EXPECT_THAT(DecodeWorkerSetup(Encode(setup)),
              StatusIs(StatusCode::kDataLoss, HasSubstr("prefetch 0")));
}

TEST(MessagesTest, ABoolIsZeroOrOne) {
  WorkerSetup setup = SomeSetup();
  setup.unbatched = false;
  std::string bytes = Encode(setup);
  setup.unbatched = true;
  const std::string other = Encode(setup);
  ASSERT_EQ(bytes.size(), other.size());
  const size_t at = static_cast<size_t>(
      std::mismatch(bytes.begin(), bytes.end(), other.begin()).first -
      bytes.begin());
  bytes[at] = 2;
  EXPECT_THAT(DecodeWorkerSetup(bytes),
              StatusIs(StatusCode::kDataLoss, HasSubstr("enum value 2")));
}

TEST(MessagesTest, NoteComesBack) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto back,
                             DecodeWorkerMessage(EncodeNote(SomeNote())));
  EXPECT_FALSE(back.is_offer);
  EXPECT_THAT(back.note.status, StatusIs(StatusCode::kAborted, "no"));
  ASSERT_THAT(back.note.skipped, SizeIs(1));
  EXPECT_EQ(back.note.skipped[0].position, 8);
  EXPECT_EQ(back.note.skipped[0].index, 7);
  EXPECT_THAT(back.note.skipped[0].status,
              StatusIs(StatusCode::kDataLoss, "rotten"));
}

TEST(MessagesTest, OfferComesBack) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto back,
                             DecodeWorkerMessage(EncodeOffer("the offer")));
  EXPECT_TRUE(back.is_offer);
  EXPECT_EQ(back.offer, "the offer");
}

TEST(MessagesTest, AnEndlessErrorTextIsCut) {
  BatchNote note = SomeNote();
  note.status = absl::InternalError(std::string(1 << 20, 'x'));
  note.skipped[0].status = note.status;
  EXPECT_LT(EncodeNote(note).size(), 2 * 4096u + 256);
}

TEST(MessagesTest, CutAndProlongedMessagesAreRefused) {
  const auto check = [](const std::string& whole, auto decode) {
    for (size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THAT(decode(absl::string_view(whole).substr(0, size)),
                  StatusIs(StatusCode::kDataLoss));
    }
    EXPECT_THAT(decode(whole + 'x'), StatusIs(StatusCode::kDataLoss));
  };
  check(Encode(SomeSetup()), DecodeWorkerSetup);
  check(EncodeNote(SomeNote()), DecodeWorkerMessage);
  check(EncodeOffer("the offer"), DecodeWorkerMessage);
}

TEST(MessagesTest, UnknownTypesAreRefused) {
  std::string message = EncodeNote(SomeNote());
  message[0] = 77;
  EXPECT_THAT(DecodeWorkerMessage(message), StatusIs(StatusCode::kDataLoss));
}

TEST(MessagesTest, MutatedMessagesNeverHarm) {
  std::mt19937 random(20260101);
  for (const std::string& seed :
       {Encode(SomeSetup()), EncodeNote(SomeNote()), EncodeOffer("offer")}) {
    for (int i = 0; i < 20'000; ++i) {
      std::string mutated = seed;
      for (unsigned n = random() % 4 + 1; n > 0; --n) {
        mutated[random() % mutated.size()] = static_cast<char>(random());
      }
      DecodeWorkerSetup(mutated).status().IgnoreError();
      DecodeWorkerMessage(mutated).status().IgnoreError();
    }
  }
}

TEST(MessagesTest, TasksHaveEightIndicesARecord) {
  EXPECT_EQ(TaskRecords(0), 1u);
  EXPECT_EQ(TaskRecords(1), 2u);
  EXPECT_EQ(TaskRecords(8), 2u);
  EXPECT_EQ(TaskRecords(9), 3u);
  EXPECT_EQ(TaskRecords(64), 9u);
}

}  // namespace
}  // namespace tenon::loader
