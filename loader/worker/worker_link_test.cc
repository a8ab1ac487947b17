// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The link to a worker that is played by the test: what it accepts, and what it
// refuses.

#include "tenon/loader/worker/worker_link.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/ipc/ring/ring.h"
#include "tenon/ipc/ring/ring_channel.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/iterable_dataset.h"
#include "tenon/loader/data/sample_spec.h"
#include "tenon/loader/stats/stats_memory.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::loader {
namespace {

using ::absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Deadline Watchdog() { return Deadline::After(absl::Seconds(60)); }

constexpr int64_t kBatchSize = 10;

// The worker's ends, in this process.
class FakeWorker {
 public:
  explicit FakeWorker(WorkerLink& link) : channel_(link.TakeWorkerEnd()) {
    std::thread worker([&] {
      tasks_ = *JoinRing(channel_, Watchdog());
      batches_ = *RingProducer::Create({.name = "batches",
                                        .record_bytes = sizeof(BatchRecord),
                                        .capacity = 4});
      EXPECT_THAT(AddRingReader(*batches_, channel_, Watchdog()), IsOk());
      const auto stats = StatsMemory::Create({.worker = 3});
      const int fd = stats->fd();
      EXPECT_THAT(
          channel_.Send(kStatsMessage, absl::MakeConstSpan(&fd, 1), Watchdog()),
          IsOk());
    });
    EXPECT_THAT(link.Handshake(Watchdog()), IsOk());
    worker.join();
    arena_ = *Arena::Create({.name = "fake"});
  }

  // The next task and its indices.
  std::pair<TaskRecord, std::vector<int64_t>> Task() {
    TaskRecord task;
    EXPECT_THAT(
        tasks_->Get(std::as_writable_bytes(std::span(&task, 1)), Watchdog()),
        IsOkAndHolds(1u));
    std::vector<int64_t> indices((TaskRecords(task.count) - 1) * 8);
    auto left = std::as_writable_bytes(std::span(indices));
    while (!left.empty()) {
      const auto got = tasks_->Get(left, Watchdog());
      EXPECT_THAT(got, IsOk());
      left = left.subspan(*got * sizeof(TaskRecord));
    }
    indices.resize(task.count);
    return {task, indices};
  }

  TaskRecord TaskOfShard() {
    TaskRecord task;
    EXPECT_THAT(
        tasks_->Get(std::as_writable_bytes(std::span(&task, 1)), Watchdog()),
        IsOkAndHolds(1u));
    return task;
  }

  // A block for a batch; its offer is sent if it is the first.
  Block NewBlock(size_t bytes, BatchRecord& record) {
    Block block = *arena_->TryAllocate(bytes);
    record.block = *block.Describe();
    if (!std::exchange(offered_, true)) {
      const ArenaOffer offer = *arena_->Offer(block);
      EXPECT_THAT(
          channel_.Send(EncodeOffer(offer.bytes), offer.fds, Watchdog()),
          IsOk());
      ++record.messages;
    }
    return block;
  }
  void Send(const std::string& message, BatchRecord& record) {
    EXPECT_THAT(channel_.Send(message, {}, Watchdog()), IsOk());
    ++record.messages;
  }
  void SendNote(const BatchNote& note, BatchRecord& record) {
    Send(EncodeNote(note), record);
  }
  void SendOffer(absl::string_view offer, BatchRecord& record) {
    Send(EncodeOffer(offer), record);
  }
  void Report(const BatchRecord& record) {
    EXPECT_THAT(batches_->Put(std::as_bytes(std::span(&record, 1)), Watchdog()),
                IsOk());
  }
  void Leave() { batches_.reset(); }
  uint64_t acknowledged() { return batches_->acknowledged(); }

 private:
  Channel channel_;
  std::unique_ptr<RingReader> tasks_;
  std::unique_ptr<RingProducer> batches_;
  std::shared_ptr<Arena> arena_;
  bool offered_ = false;
};

class WorkerLinkTest : public ::testing::Test {
 protected:
  // Assigns 3 samples with that ticket.
  void Assign(uint64_t ticket) {
    ASSERT_THAT(
        link_.Assign(
            {.ticket = ticket, .number = 5, .epoch = 1, .first_position = 50},
            {4, 2, 9}),
        IsOk());
  }
  void Refuses(const BatchRecord& record, const char* why) {
    worker_.Report(record);
    EXPECT_THAT(link_.Take(), StatusIs(StatusCode::kDataLoss, HasSubstr(why)));
    EXPECT_EQ(worker_.acknowledged(), 0u);  // It was not taken.
  }

  std::shared_ptr<const BatchLayout> layout_ =
      std::make_shared<const BatchLayout>(
          *BatchLayout::Create(SampleSpec().Add<int64_t>("value"), kBatchSize));
  WorkerLink link_ = *WorkerLink::Create(3, 2, layout_);
  FakeWorker worker_{link_};
};

TEST_F(WorkerLinkTest, ATaskArrivesWithItsIndices) {
  Assign(7);
  const auto [task, indices] = worker_.Task();
  EXPECT_EQ(task.ticket, 7u);
  EXPECT_EQ(task.epoch, 1);
  EXPECT_EQ(task.first_position, 50);
  EXPECT_THAT(indices, ElementsAre(4, 2, 9));
  EXPECT_EQ(link_.current()->number, 5);
}

TEST_F(WorkerLinkTest, TakesUpToItsCapacityOfFullTasks) {
  const std::vector<int64_t> full(kBatchSize, 1);
  link_.AbandonBefore(1000);
  for (uint64_t ticket = 0; ticket < 1000; ++ticket) {
    while (link_.CanTake()) {
      ASSERT_THAT(link_.Assign({.ticket = ticket + link_.outstanding()}, full),
                  IsOk());
    }
    EXPECT_EQ(link_.outstanding(), 2u);
    worker_.Task();
    worker_.Report({.ticket = ticket, .outcome = BatchRecord::kAbandoned});
    TENON_ASSERT_OK_AND_ASSIGN(const auto finished, link_.Take());
    ASSERT_TRUE(finished);
    EXPECT_EQ(finished->job.ticket, ticket);
  }
}

TEST_F(WorkerLinkTest, ABatchIsABlockOfTheWorker) {
  Assign(7);
  EXPECT_THAT(link_.Take(), IsOkAndHolds(::testing::Eq(std::nullopt)));
  EXPECT_FALSE(link_.HasFinished());
  BatchRecord record = {.ticket = 7, .samples = 3};
  Block block =
      worker_.NewBlock(static_cast<size_t>(layout_->total_bytes()), record);
  const std::array<int64_t, 3> values = {1, 2, 3};
  std::memcpy(block.data(), values.data(), sizeof(values));
  worker_.Report(record);
  EXPECT_TRUE(link_.HasFinished());
  TENON_ASSERT_OK_AND_ASSIGN(auto finished, link_.Take());
  ASSERT_TRUE(finished);
  ASSERT_THAT(finished->batch, IsOk());
  EXPECT_EQ(worker_.acknowledged(), 1u);  // Claimed, so the worker may drop it.
  block.Reset();
  const Batch& batch = *finished->batch;
  EXPECT_EQ(batch.number(), 5);
  EXPECT_EQ(batch.worker(), 3);
  EXPECT_THAT(batch.data<int64_t>("value"), IsOkAndHolds(ElementsAre(1, 2, 3)));
  EXPECT_THAT(batch.skipped(), IsEmpty());
}

TEST_F(WorkerLinkTest, SkippedSamplesComeInTheNote) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 2};
  const Block block =
      worker_.NewBlock(static_cast<size_t>(layout_->total_bytes()), record);
  worker_.SendNote(
      {.status = {}, .skipped = {{51, 2, absl::DataLossError("rotten")}}},
      record);
  worker_.Report(record);
  TENON_ASSERT_OK_AND_ASSIGN(auto finished, link_.Take());
  ASSERT_THAT(finished->batch, IsOk());
  EXPECT_EQ(finished->batch->size(), 2);
  ASSERT_THAT(finished->batch->skipped(), SizeIs(1));
  EXPECT_EQ(finished->batch->skipped()[0].position, 51);
}

TEST_F(WorkerLinkTest, AnErrorIsThatOfItsBatchOnly) {
  Assign(7);
  Assign(8);
  link_.AbandonBefore(9);
  BatchRecord failed = {.ticket = 7, .outcome = BatchRecord::kFailed};
  worker_.SendNote({.status = absl::AbortedError("no"), .skipped = {}}, failed);
  worker_.Report(failed);
  worker_.Report({.ticket = 8, .outcome = BatchRecord::kAbandoned});
  TENON_ASSERT_OK_AND_ASSIGN(auto finished, link_.Take());
  EXPECT_THAT(finished->batch, StatusIs(StatusCode::kAborted, "no"));
  TENON_ASSERT_OK_AND_ASSIGN(finished, link_.Take());
  EXPECT_EQ(finished->job.ticket, 8u);
}

TEST_F(WorkerLinkTest, ATaskOfAShardHasNoIndices) {
  ASSERT_THAT(
      link_.Assign({.ticket = 7, .lane = 2, .samples = 3, .run = 6}, {}),
      IsOk());
  Assign(8);
  const TaskRecord task = worker_.TaskOfShard();
  EXPECT_EQ(task.lane, 2);
  EXPECT_EQ(task.count, 3u);
  EXPECT_EQ(task.run, 6u);
  EXPECT_EQ(worker_.Task().first.ticket, 8u);
}

TEST_F(WorkerLinkTest, ABatchOfAShardMayBeShort) {
  ASSERT_THAT(link_.Assign({.ticket = 7, .lane = 2, .samples = 3}, {}), IsOk());
  ASSERT_THAT(link_.Assign({.ticket = 8, .lane = 2, .samples = 3}, {}), IsOk());
  BatchRecord record = {.ticket = 7, .samples = 2};
  const Block block =
      worker_.NewBlock(static_cast<size_t>(layout_->total_bytes()), record);
  worker_.Report(record);
  worker_.Report({.ticket = 8, .outcome = BatchRecord::kEnded});
  TENON_ASSERT_OK_AND_ASSIGN(auto finished, link_.Take());
  EXPECT_FALSE(finished->ended);
  ASSERT_THAT(finished->batch, IsOk());
  EXPECT_EQ(finished->batch->size(), 2);
  TENON_ASSERT_OK_AND_ASSIGN(finished, link_.Take());
  EXPECT_TRUE(finished->ended);
  EXPECT_EQ(finished->job.lane, 2);
}

TEST_F(WorkerLinkTest, RefusesTheEndOfNoShard) {
  Assign(7);
  Refuses({.ticket = 7, .outcome = BatchRecord::kEnded},
          "kEnded for a task of indices");
}

TEST_F(WorkerLinkTest, RefusesSamplesAndNotesWithoutABatch) {
  ASSERT_THAT(link_.Assign({.ticket = 7, .lane = 2, .samples = 3}, {}), IsOk());
  Refuses({.ticket = 7, .outcome = BatchRecord::kEnded, .samples = 1},
          "1 samples for a task without a batch");
}

TEST_F(WorkerLinkTest, RefusesAnAbandonedTaskWithANote) {
  Assign(7);
  link_.AbandonBefore(8);
  BatchRecord record = {.ticket = 7, .outcome = BatchRecord::kAbandoned};
  worker_.SendNote({.status = absl::AbortedError("no"), .skipped = {}}, record);
  Refuses(record, "0 samples and a note for a task without a batch");
}

// A batch of shard 2 after one of `samples` samples, or its end.
class AfterTheEndTest : public WorkerLinkTest {
 protected:
  void SetUp() override {
    for (const uint64_t ticket : {7, 8}) {
      ASSERT_THAT(link_.Assign({.ticket = ticket, .lane = 2, .samples = 3}, {}),
                  IsOk());
    }
  }
  absl::Status SecondOf(BatchRecord first) {
    const auto bytes = static_cast<size_t>(layout_->total_bytes());
    const Block block =
        first.samples > 0 ? worker_.NewBlock(bytes, first) : Block();
    worker_.Report(first);
    EXPECT_THAT(link_.Take(), IsOk());
    BatchRecord second = {.ticket = 8, .samples = 3};
    const Block another = worker_.NewBlock(bytes, second);
    worker_.Report(second);
    return link_.Take().status();
  }
};

TEST_F(AfterTheEndTest, RefusesABatchAfterTheEnd) {
  EXPECT_THAT(SecondOf({.ticket = 7, .outcome = BatchRecord::kEnded}),
              StatusIs(StatusCode::kDataLoss,
                       HasSubstr("a batch of lane 2 after the lane's end")));
}

TEST_F(AfterTheEndTest, RefusesABatchAfterAShortOne) {
  EXPECT_THAT(SecondOf({.ticket = 7, .samples = 2}),
              StatusIs(StatusCode::kDataLoss, HasSubstr("after the lane's")));
}

TEST_F(AfterTheEndTest, TakesABatchAfterAFullOne) {
  EXPECT_THAT(SecondOf({.ticket = 7, .samples = 3}), IsOk());
}

// Shards 2, 5 and 8 of a lane.
class LaneOfShardsTest : public WorkerLinkTest {
 protected:
  absl::StatusOr<std::optional<WorkerLink::Finished>> Next(
      BatchRecord record, std::vector<SkippedSample> skipped = {}) {
    record.ticket = ticket_++;
    TENON_RETURN_IF_ERROR(link_.Assign({.ticket = record.ticket,
                                        .lane = 2,
                                        .lanes = {.shards = 9, .lanes = 3},
                                        .samples = 3},
                                       {}));
    if (!skipped.empty()) {
      worker_.SendNote({.status = {}, .skipped = std::move(skipped)}, record);
    }
    const Block block =
        worker_.NewBlock(static_cast<size_t>(layout_->total_bytes()), record);
    worker_.Report(record);
    return link_.Take();
  }
  uint64_t ticket_ = 7;
};

TEST_F(LaneOfShardsTest, AShortBatchIsNotTheEnd) {
  for (int i = 0; i < 3; ++i) EXPECT_THAT(Next({.samples = 1}), IsOk());
}

TEST_F(LaneOfShardsTest, SkipsSamplesOfItsShards) {
  for (const int64_t shard : {2, 5, 8}) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const auto finished,
        Next({.samples = 2},
             {{PositionInShard(shard, 4), 4, absl::DataLossError("rotten")}}));
    ASSERT_THAT(finished->batch, IsOk());
    EXPECT_EQ(finished->batch->skipped()[0].position,
              PositionInShard(shard, 4));
  }
}

TEST_F(LaneOfShardsTest, RefusesSkippedSamplesOfOthers) {
  EXPECT_THAT(
      Next({.samples = 2},
           {{PositionInShard(4, 4), 4, absl::DataLossError("rotten")}}),
      StatusIs(StatusCode::kDataLoss, HasSubstr("at position 4398046511108")));
}

TEST_F(LaneOfShardsTest, RefusesSkippedSamplesBeyondItsLastShard) {
  EXPECT_THAT(Next({.samples = 2}, {{PositionInShard(11, 4), 4,
                                     absl::DataLossError("rotten")}}),
              StatusIs(StatusCode::kDataLoss, HasSubstr("at position")));
}

TEST_F(LaneOfShardsTest, RefusesSkippedSamplesOfTwoShards) {
  EXPECT_THAT(Next({.samples = 1},
                   {{PositionInShard(2, 4), 4, absl::DataLossError("rotten")},
                    {PositionInShard(5, 0), 0, absl::DataLossError("rotten")}}),
              StatusIs(StatusCode::kDataLoss, HasSubstr("at position")));
}

TEST_F(WorkerLinkTest, RefusesAShortBatchWhereThoseAreDropped) {
  ASSERT_THAT(
      link_.Assign({.ticket = 7, .lane = 2, .samples = 3, .full = true}, {}),
      IsOk());
  BatchRecord record = {.ticket = 7, .samples = 2};
  const Block block =
      worker_.NewBlock(static_cast<size_t>(layout_->total_bytes()), record);
  Refuses(record, "2 samples made and 0 skipped of 3");
}

TEST_F(WorkerLinkTest, RefusesFewerSamplesThanTheIndices) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 2};
  const Block block =
      worker_.NewBlock(static_cast<size_t>(layout_->total_bytes()), record);
  Refuses(record, "2 samples made and 0 skipped of 3");
}

TEST_F(WorkerLinkTest, RefusesAnAnswerToNoTask) {
  Refuses({.ticket = 7}, "task 7, which it was not asked for; want none");
}

TEST_F(WorkerLinkTest, RefusesAnAnswerToAnotherTask) {
  Assign(7);
  Refuses({.ticket = 8}, "task 8, which it was not asked for; want 7");
}

TEST_F(WorkerLinkTest, RefusesMoreSamplesThanAskedFor) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 4};
  const Block block =
      worker_.NewBlock(static_cast<size_t>(layout_->total_bytes()), record);
  Refuses(record, "4 samples made and 0 skipped of 3");
}

TEST_F(WorkerLinkTest, RefusesANegativeNumberOfSamples) {
  Assign(7);
  Refuses({.ticket = 7, .samples = -1}, "-1 samples made");
}

TEST_F(WorkerLinkTest, RefusesABlockThatIsTooSmall) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 3};
  Block block = worker_.NewBlock(4096, record);
  record.block = *block.Describe(0, 64);
  Refuses(record, "a block of 64 bytes for a batch of 128");
}

TEST_F(WorkerLinkTest, RefusesABlockWhoseSegmentWasNotOffered) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 3};
  const Block block = worker_.NewBlock(128, record);
  record.messages = 0;
  Refuses(record, "bad block: ");
}

TEST_F(WorkerLinkTest, RefusesAMalformedOffer) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 3};
  worker_.SendOffer("no offer", record);
  Refuses(record, "bad offer: ");
}

TEST_F(WorkerLinkTest, RefusesAMalformedMessage) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 3};
  worker_.Send("nonsense", record);
  Refuses(record, "unknown type");
}

TEST_F(WorkerLinkTest, RefusesTwoNotes) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .outcome = BatchRecord::kFailed};
  const BatchNote note = {.status = absl::AbortedError("no"), .skipped = {}};
  worker_.SendNote(note, record);
  worker_.SendNote(note, record);
  Refuses(record, "two notes");
}

TEST_F(WorkerLinkTest, RefusesAMadeBatchWithAnError) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 3};
  worker_.SendNote({.status = absl::AbortedError("no"), .skipped = {}}, record);
  Refuses(record, "a batch with an error: no");
}

TEST_F(WorkerLinkTest, RefusesAFailedBatchWithSkippedSamples) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .outcome = BatchRecord::kFailed};
  worker_.SendNote({.status = absl::AbortedError("no"),
                    .skipped = {{51, 2, absl::DataLossError("rotten")}}},
                   record);
  Refuses(record, "a failed batch with 1 skipped samples");
}

// Assign() gives items 4, 2 and 9 the positions 50 to 52.
class SkippedSamplesTest : public WorkerLinkTest {
 protected:
  void Skips(std::vector<SkippedSample> skipped, const char* why) {
    Assign(7);
    BatchRecord record = {.ticket = 7, .samples = 3 - std::ssize(skipped)};
    worker_.SendNote({.status = {}, .skipped = std::move(skipped)}, record);
    Refuses(record, why);
  }
  const absl::Status rotten_ = absl::DataLossError("rotten");
};

TEST_F(SkippedSamplesTest, BeforeTheBatch) {
  Skips({{49, 4, rotten_}}, "at position 49; want 50 to 52");
}
TEST_F(SkippedSamplesTest, AfterTheBatch) {
  Skips({{53, 9, rotten_}}, "at position 53; want 50 to 52");
}
TEST_F(SkippedSamplesTest, Twice) {
  Skips({{51, 2, rotten_}, {51, 2, rotten_}}, "at position 51; want 52 to 52");
}
TEST_F(SkippedSamplesTest, OfAnotherItem) {
  Skips({{51, 4, rotten_}}, "item 4 at position 51; want item 2");
}
TEST_F(SkippedSamplesTest, ReplacedByNoItem) {
  Skips({{51, 2, rotten_, -2}}, "replaced item 2 by item -2");
}
TEST_F(SkippedSamplesTest, AReplacedOneIsAmongTheSamples) {
  Assign(7);
  BatchRecord record = {.ticket = 7, .samples = 2};
  worker_.SendNote({.status = {}, .skipped = {{51, 2, rotten_, 8}}}, record);
  Refuses(record, "reports 2 samples made and 0 skipped of 3");
}
TEST_F(SkippedSamplesTest, WithoutAnError) {
  Skips({{51, 2, absl::OkStatus()}}, "item 2 without an error");
}

// Of a batch of up to 3 samples of shard 2.
class SkippedInAShardTest : public WorkerLinkTest {
 protected:
  void Skips(std::vector<SkippedSample> skipped, const char* why) {
    ASSERT_THAT(link_.Assign({.ticket = 7, .lane = 2, .samples = 3}, {}),
                IsOk());
    BatchRecord record = {.ticket = 7, .samples = 3 - std::ssize(skipped)};
    worker_.SendNote({.status = {}, .skipped = std::move(skipped)}, record);
    Refuses(record, why);
  }
  const absl::Status rotten_ = absl::DataLossError("rotten");
};

TEST_F(SkippedInAShardTest, OfAnotherShard) {
  Skips({{PositionInShard(1, 4), 4, rotten_}}, "at position 1099511627780");
  EXPECT_EQ(PositionInShard(1, 4), 1099511627780);
}
TEST_F(SkippedInAShardTest, Twice) {
  Skips({{PositionInShard(2, 4), 4, rotten_},
         {PositionInShard(2, 4), 4, rotten_}},
        "at position 2199023255556");
}
TEST_F(SkippedInAShardTest, FurtherApartThanABatch) {
  Skips({{PositionInShard(2, 4), 4, rotten_},
         {PositionInShard(2, 7), 7, rotten_}},
        "at position 2199023255559; want 2199023255557 to 2199023255558");
}
TEST_F(SkippedInAShardTest, OfAnotherItem) {
  Skips({{PositionInShard(2, 4), 5, rotten_}}, "want item 4");
}
TEST_F(SkippedInAShardTest, ReplacedByAnItem) {
  Skips({{PositionInShard(2, 4), 4, rotten_, 3}}, "replaced item 4 by item 3");
}
TEST_F(SkippedInAShardTest, WithoutAnError) {
  Skips({{PositionInShard(2, 4), 4, absl::OkStatus()}},
        "item 4 without an error");
}
TEST_F(WorkerLinkTest, RefusesAnEmptyBatchOfAShard) {
  ASSERT_THAT(link_.Assign({.ticket = 7, .lane = 2, .samples = 3}, {}), IsOk());
  Refuses({.ticket = 7}, "0 samples made and 0 skipped of 3");
}
TEST_F(WorkerLinkTest, RefusesMoreSamplesOfAShardThanAsked) {
  ASSERT_THAT(link_.Assign({.ticket = 7, .lane = 2, .samples = 3}, {}), IsOk());
  Refuses({.ticket = 7, .samples = 4}, "4 samples made and 0 skipped of 3");
}

TEST_F(WorkerLinkTest, RefusesToAbandonATaskThatIsWanted) {
  Assign(7);
  link_.AbandonBefore(7);
  Refuses({.ticket = 7, .outcome = BatchRecord::kAbandoned},
          "task 7 as abandoned; only those before 7 are");
}

TEST_F(WorkerLinkTest, RefusesMessagesThatWereNotSent) {
  Assign(7);
  Refuses({.ticket = 7, .messages = 1}, "before its messages");
}

TEST_F(WorkerLinkTest, RefusesTooManyMessages) {
  Assign(7);
  Refuses({.ticket = 7, .messages = 3}, "3 messages");
}

TEST_F(WorkerLinkTest, RefusesUnknownOutcomes) {
  Assign(7);
  Refuses({.ticket = 7, .outcome = 99}, "unknown outcome 99");
}

TEST_F(WorkerLinkTest, RefusesAFailureWithoutAnError) {
  Assign(7);
  Refuses({.ticket = 7, .outcome = BatchRecord::kFailed}, "without an error");
}

TEST_F(WorkerLinkTest, AWorkerThatLeavesIsUnavailable) {
  Assign(7);
  link_.AbandonBefore(8);
  worker_.Report({.ticket = 7, .outcome = BatchRecord::kAbandoned});
  worker_.Leave();
  EXPECT_THAT(link_.Take(), IsOk());  // What it had reported comes first.
  EXPECT_THAT(link_.CheckAlive(), StatusIs(StatusCode::kUnavailable));
}

TEST(WorkerLinkSizeTest, RefusesMoreIndicesThanARingTakes) {
  auto layout = std::make_shared<const BatchLayout>(*BatchLayout::Create(
      SampleSpec().Add<uint8_t>("value"), int64_t{1} << 27));
  EXPECT_THAT(WorkerLink::Create(0, 2, layout),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("lower batch_size or prefetch")));
  // 1024 times its records are 2^64 + 1024.
  layout = std::make_shared<const BatchLayout>(*BatchLayout::Create(
      SampleSpec().Add<uint8_t>("value"), int64_t{1} << 57));
  EXPECT_THAT(WorkerLink::Create(0, 1024, layout),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("lower batch_size or prefetch")));
}

}  // namespace
}  // namespace tenon::loader
