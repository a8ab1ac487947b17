// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorEncoder, PublishedTensorFds and TensorDecoder together, without a
// queue.

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/fd_board.h"
#include "tenon/ipc/tensor_codec/tensor_decoder.h"
#include "tenon/ipc/tensor_codec/tensor_encoder.h"
#include "tenon/ipc/tensor_codec/tensor_fds.h"
#include "tenon/ipc/tensor_codec/tensor_message.h"
#include "tenon/ipc/tensor_codec/tensor_wire.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/message.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/tensor/tensor_spec.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using testing::HasSubstr;

constexpr size_t kRecordBytes = 128;

class TensorCodecTest : public testing::Test {
 protected:
  TensorCodecTest() : fds_(FdBoard::Create().value()) {}

  std::unique_ptr<TensorEncoder> NewEncoder(std::shared_ptr<Arena> arena = {}) {
    auto published = PublishedTensorFds::On(
        [this](absl::string_view bytes,
               absl::Span<const int> fds) -> absl::Status {
          if (refuses_) return absl::ResourceExhaustedError("it refuses");
          ++published_;
          return fds_.Publish(bytes, fds);
        });
    return std::make_unique<TensorEncoder>(*std::move(published),
                                           std::move(arena), "codec");
  }

  // As the next message.
  absl::StatusOr<TensorHolds> Encode(const TensorMessage& message) {
    ++number_;
    return encoder_->Encode(message, number_, taken_, Deadline::Passed(),
                            record_);
  }

  absl::StatusOr<TensorMessage> Decode() {
    const auto take = [this] { return fds_.Read(); };
    std::optional<ReceivedTensorFds> item;
    TensorSource source(take, &item);
    TensorMessage message;
    const absl::Status status = decoder_.Decode(record_, source, &message);
    if (!status.ok()) return status;
    return message;
  }

  absl::StatusOr<TensorMessage> Through(const TensorMessage& message) {
    const auto holds = Encode(message);
    if (!holds.ok()) return holds.status();
    return Decode();
  }

  FdBoard fds_;
  int published_ = 0;
  bool refuses_ = false;
  std::unique_ptr<TensorEncoder> encoder_ = NewEncoder();
  TensorDecoder decoder_{{}, {}};
  uint64_t number_ = 0;
  uint64_t taken_ = 0;
  std::vector<std::byte> record_ = std::vector<std::byte>(kRecordBytes);
};

Tensor NewTensor(float value) {
  Tensor tensor = Tensor::Create(kDtypeOf<float>, {4, 8}).value();
  EXPECT_THAT(tensor.Fill(value), IsOk());
  return tensor;
}

void ExpectIs(const absl::StatusOr<Tensor>& tensor, float value) {
  ASSERT_THAT(tensor, IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor dense, tensor->Contiguous());
  TENON_ASSERT_OK_AND_ASSIGN(const auto elements, dense.data<const float>());
  for (const float element : elements) ASSERT_EQ(element, value);
}

// Four numbers on cuda:1, in memory that no pool has.
Tensor OnCuda() {
  return Tensor::FromSpec(
             TensorSpec::Contiguous(kDtypeOf<float>, {4}).value(),
             Storage::FromLent({.data = reinterpret_cast<std::byte*>(0x10000),
                                .size_bytes = 16,
                                .writable = true,
                                .device = {kDLCUDA, 1}}))
      .value();
}

TEST_F(TensorCodecTest, DeviceMemoryOfNoPoolIsNotCopied) {
  const auto refused = StatusIs(
      absl::StatusCode::kFailedPrecondition,
      HasSubstr("tensor float32[4] is on cuda:1 in memory that other processes "
                "cannot map; create it in a pool of the device, or send a copy "
                "on the CPU (Tensor::ToCpu())"));
  EXPECT_THAT(Encode(TensorMessage(OnCuda())), refused);
  // Nor is anything of the message.
  EXPECT_THAT(Encode(TensorMessage(NewTensor(1)).Add(OnCuda())), refused);
  TensorFdList fds;
  EXPECT_THAT(EncodeRecord(TensorMessage(OnCuda()), fds), refused);
  EXPECT_EQ(published_, 0);
  TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got,
                             Through(TensorMessage(NewTensor(1))));
  ExpectIs(got.tensor(0), 1);
}

// Without a queue.
TEST_F(TensorCodecTest, ARecordOfTensorsHasNoOtherFields) {
  Tensor tensor = NewTensor(1);
  ASSERT_THAT(tensor.Share(), IsOk());
  const auto take = []() -> absl::StatusOr<Message> {
    return absl::NotFoundError("nothing is published");
  };
  std::optional<ReceivedTensorFds> item;
  TensorSource source(take, &item);
  TensorFdList fds;
  TENON_ASSERT_OK_AND_ASSIGN(const std::string other,
                             EncodeRecord(TensorMessage(tensor).Add(5), fds));
  EXPECT_THAT(decoder_.DecodeEach(std::as_bytes(std::span(other)), source),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("a field is not a tensor")));
  // Each has its own error.
  TENON_ASSERT_OK_AND_ASSIGN(
      const std::string record,
      EncodeRecord(TensorMessage(Tensor()).Add(tensor), fds));
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto tensors,
      decoder_.DecodeEach(std::as_bytes(std::span(record)), source));
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_THAT(tensors[0], IsOk());
  EXPECT_THAT(tensors[1], StatusIs(absl::StatusCode::kNotFound,
                                   HasSubstr("nothing is published")));
}

// The descriptor of a segment is used by the first tensor of it.
TEST_F(TensorCodecTest, ALimitIsTheErrorOfEachTensorOfAStorage) {
  Tensor first = NewTensor(1);
  Tensor second = NewTensor(2);
  ASSERT_THAT(first.Share(), IsOk());
  ASSERT_THAT(second.Share(), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor row, second.Select(0, 1));
  TensorFdList fds;
  TENON_ASSERT_OK_AND_ASSIGN(
      const std::string record,
      EncodeRecord(TensorMessage(first).Add(second).Add(row).Add(first), fds));
  Message list = {.bytes = fds.bytes(), .fds = {}};
  for (const int fd : fds.fds()) {
    list.fds.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  const auto take = []() -> absl::StatusOr<Message> {
    return absl::NotFoundError("nothing is published");
  };
  std::optional<ReceivedTensorFds> item;
  TENON_ASSERT_OK_AND_ASSIGN(item, ReceivedTensorFds::From(std::move(list)));
  TensorSource source(take, &item);
  TensorDecoder decoder({}, {.max_storages = 1});
  TENON_ASSERT_OK_AND_ASSIGN(
      const auto tensors,
      decoder.DecodeEach(std::as_bytes(std::span(record)), source));
  ASSERT_EQ(tensors.size(), 4u);
  ExpectIs(tensors[0], 1);
  ExpectIs(tensors[3], 1);
  for (const size_t i : {size_t{1}, size_t{2}}) {
    EXPECT_THAT(tensors[i], StatusIs(absl::StatusCode::kResourceExhausted,
                                     HasSubstr("at most 1 storages")));
  }
}

TEST_F(TensorCodecTest, ScalarsAndStringsGoIntoTheRecord) {
  TensorMessage message;
  message.Add(-5).Add(2.5).Add("text").Add("");
  TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got, Through(message));
  EXPECT_EQ(got.size(), 4u);
  EXPECT_THAT(got.integer(0), IsOkAndHolds(-5));
  EXPECT_THAT(got.number(1), IsOkAndHolds(2.5));
  EXPECT_THAT(got.string(2), IsOkAndHolds("text"));
  EXPECT_THAT(got.string(3), IsOkAndHolds(""));
  EXPECT_EQ(published_, 0);
}

TEST_F(TensorCodecTest, ALongStringGoesIntoABlock) {
  const std::string text(100'000, 'x');
  TensorMessage message;
  message.Add(1).Add(text);
  TENON_ASSERT_OK_AND_ASSIGN(const TensorHolds holds, Encode(message));
  EXPECT_NE(holds.block.data(), nullptr);
  TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got, Decode());
  EXPECT_THAT(got.string(1), IsOkAndHolds(absl::string_view(text)));
}

TEST_F(TensorCodecTest, APrivateTensorIsCopiedAndItsViewsAreOfOneStorage) {
  const Tensor tensor = NewTensor(1);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor row, tensor.Select(0, 2));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor turned, tensor.Transpose(0, 1));
  ASSERT_THAT(row.Fill(7.0f), IsOk());
  TensorMessage message;
  message.Add(row).Add(turned).Add(NewTensor(3));
  TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got, Through(message));
  ExpectIs(got.tensor(0), 7);
  ExpectIs(got.tensor(2), 3);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor got_turned, got.tensor(1));
  EXPECT_EQ(**got_turned.at<const float>({0, 2}), 7);
  EXPECT_EQ(**got_turned.at<const float>({0, 1}), 1);
  EXPECT_EQ(got_turned.spec().strides(), turned.spec().strides());
  EXPECT_EQ(got_turned.storage(), got.tensor(0)->storage());
  EXPECT_TRUE(got_turned.is_shared());
  EXPECT_FALSE(tensor.is_shared());
}

TEST_F(TensorCodecTest, APooledTensorIsTheSameMemoryAndLaidOutOnce) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
  for (int i = 0; i < 10; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor tensor,
        CreateTensor(*arena, kDtypeOf<float>, {3}, Deadline::Passed()));
    ASSERT_THAT(tensor.Fill(5.0f), IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got,
                               Through(TensorMessage(tensor)));
    ExpectIs(got.tensor(0), 5);
    ASSERT_THAT(tensor.Fill(6.0f), IsOk());
    ExpectIs(got.tensor(0), 6);
    // Forwards the received message.
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage again, Through(got));
    ExpectIs(again.tensor(0), 6);
  }
  EXPECT_EQ(published_, 1);
}

TEST_F(TensorCodecTest, SegmentsTravelByDescriptorAndByName) {
  const std::string prefix = UniqueTestPrefix();
  for (const auto strategy :
       {SharingStrategy::kFileDescriptor, SharingStrategy::kFileSystem}) {
    Tensor tensor = NewTensor(1);
    ASSERT_THAT(tensor.Share({.strategy = strategy, .name_prefix = prefix}),
                IsOk());
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor row, tensor.Select(0, 1));
    TensorMessage message(tensor);
    message.Add(row);
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got, Through(message));
    ExpectIs(got.tensor(0), 1);
    EXPECT_EQ(got.tensor(0)->storage(), got.tensor(1)->storage());
    ASSERT_THAT(got.tensor(1)->Fill(2.0f), IsOk());
    ExpectIs(row, 2);
  }
}

TEST_F(TensorCodecTest, TensorsWithoutElementsArrive) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor none,
                             Tensor::Create(kDtypeOf<double>, {0, 5}));
  const Tensor tensor = NewTensor(1);
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor nothing_of_it,
                             tensor.Slice(0, {.start = 2, .stop = 2}));
  TensorMessage message;
  message.Add(Tensor()).Add(none).Add(nothing_of_it);
  TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got, Through(message));
  for (size_t i = 0; i < 3; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor sent, message.tensor(i));
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor arrived, got.tensor(i));
    EXPECT_EQ(arrived.spec().shape(), sent.spec().shape());
    EXPECT_TRUE(SameDtype(arrived.spec().dtype(), sent.spec().dtype()));
  }
}

TEST_F(TensorCodecTest, ManyFieldsOfEveryKindGoIntoOneBlock) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
  Tensor shared = NewTensor(-1);
  ASSERT_THAT(shared.Share(), IsOk());
  TensorMessage message;
  for (int i = 0; i < 1000; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(
        const Tensor pooled,
        CreateTensor(*arena, kDtypeOf<float>, {4}, Deadline::Passed()));
    ASSERT_THAT(pooled.Fill(static_cast<float>(i)), IsOk());
    message.Add(i).Add(pooled).Add(NewTensor(static_cast<float>(i) + 0.5f));
    message.Add(shared);
  }
  TENON_ASSERT_OK_AND_ASSIGN(const TensorHolds holds, Encode(message));
  // The copies need no hold, and the shared block only one.
  EXPECT_EQ(holds.storages.size(), 1001u);
  TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got, Decode());
  ASSERT_EQ(got.size(), message.size());
  for (int i = 0; i < 1000; ++i) {
    const size_t at = 4 * static_cast<size_t>(i);
    EXPECT_THAT(got.integer(at), IsOkAndHolds(i));
    ExpectIs(got.tensor(at + 1), static_cast<float>(i));
    ExpectIs(got.tensor(at + 2), static_cast<float>(i) + 0.5f);
    EXPECT_EQ(got.tensor(at + 3)->storage(), got.tensor(3)->storage());
  }
}

TEST_F(TensorCodecTest, DescriptorsLieOutUntilTheirMessageIsTaken) {
  const size_t fds = CountOpenFds();
  {
    std::vector<TensorHolds> holds;
    for (int i = 0; i < 3; ++i) {
      Tensor tensor = NewTensor(1);
      ASSERT_THAT(tensor.Share(), IsOk());
      TENON_ASSERT_OK_AND_ASSIGN(holds.emplace_back(),
                                 Encode(TensorMessage(tensor)));
    }
    EXPECT_EQ(fds_.Read()->fds.size(), 3u);
    ASSERT_THAT(encoder_->fds().Reap(2), IsOk());
    EXPECT_EQ(fds_.Read()->fds.size(), 1u);
    ExpectIs(Decode()->tensor(0), 1);
    ASSERT_THAT(encoder_->fds().Reap(3), IsOk());
    EXPECT_EQ(fds_.Read()->fds.size(), 0u);
    EXPECT_THAT(Decode(), StatusIs(absl::StatusCode::kDataLoss,
                                   HasSubstr("published descriptors")));
  }
  EXPECT_EQ(CountOpenFds(), fds);
}

// Not while its successor is published: the receiver of that would wait.
TEST_F(TensorCodecTest, ATakenSegmentIsFreedAfterTheNextIsSent) {
  for (const bool sent : {true, false}) {
    std::weak_ptr<Storage> first;
    {
      Tensor tensor = NewTensor(1);
      ASSERT_THAT(tensor.Share(), IsOk());
      first = tensor.storage();
      ASSERT_THAT(Encode(TensorMessage(tensor)), IsOk());
    }
    taken_ = number_;
    Tensor next = NewTensor(2);
    ASSERT_THAT(next.Share(), IsOk());
    ASSERT_THAT(Encode(TensorMessage(next)), IsOk());
    EXPECT_EQ(fds_.Read()->fds.size(), 1u);
    EXPECT_FALSE(first.expired());
    if (sent) {
      encoder_->fds().FreeRemoved();
    } else {
      encoder_->fds().Cancel(number_);
    }
    EXPECT_TRUE(first.expired());
    taken_ = number_;
  }
}

// Otherwise receivers of later messages would keep a taken segment.
TEST_F(TensorCodecTest, ARemovalThatFailsIsTriedAgain) {
  PublishedTensorFds& published = encoder_->fds();
  const auto encode = [&] {
    Tensor tensor = NewTensor(1);
    EXPECT_THAT(tensor.Share(), IsOk());
    return Encode(TensorMessage(tensor)).status();
  };
  for (const bool by_publish : {false, true}) {
    ASSERT_THAT(encode(), IsOk());
    taken_ = number_;
    refuses_ = true;
    // The error is that of the removal, or of a new message.
    EXPECT_THAT(by_publish ? encode() : published.Reap(taken_),
                StatusIs(absl::StatusCode::kResourceExhausted));
    if (by_publish) published.Cancel(number_);
    EXPECT_TRUE(published.has_fds());
    EXPECT_EQ(fds_.Read()->fds.size(), 1u);
    EXPECT_THAT(published.Reap(taken_),
                StatusIs(absl::StatusCode::kResourceExhausted));
    refuses_ = false;
    const int before = published_;
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(published.Reap(taken_), IsOk());
      EXPECT_EQ(published_, before + 1);
    }
    EXPECT_FALSE(published.has_fds());
    EXPECT_EQ(fds_.Read()->fds.size(), 0u);
  }
}

TEST_F(TensorCodecTest, MoreDescriptorsThanFitAreRefused) {
  std::vector<Tensor> tensors;
  std::vector<TensorHolds> holds;
  for (size_t i = 0; i < PublishedTensorFds::kMaxFds + 1; ++i) {
    Tensor tensor = NewTensor(1);
    ASSERT_THAT(tensor.Share(), IsOk());
    tensors.push_back(tensor);
  }
  for (size_t i = 0; i < PublishedTensorFds::kMaxFds; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(holds.emplace_back(),
                               Encode(TensorMessage(tensors[i])));
  }
  // Not before the others have been taken.
  EXPECT_THAT(Encode(TensorMessage(tensors.back())),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("limit is 248")));
  encoder_->fds().Cancel(number_--);
  taken_ = 1;
  EXPECT_THAT(Through(TensorMessage(tensors.back())), IsOk());
  // Never in one message.
  taken_ = number_;
  TensorMessage all;
  for (const Tensor& tensor : tensors) all.Add(tensor);
  EXPECT_THAT(Encode(all), StatusIs(absl::StatusCode::kInvalidArgument,
                                    HasSubstr("a message needs")));
}

// Each word of a record is another process's word, also if the record is like
// one that was good.
TEST_F(TensorCodecTest, ARecordIsClaimedAgainOnlyIfItsBlockIsAsItSays) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      Tensor tensor,
      CreateTensor(*arena, kDtypeOf<float>, {2, 3}, Deadline::Passed()));
  // Publishes the offer of the arena.
  ASSERT_THAT(Through(TensorMessage(tensor)), IsOk());
  WireWords record;
  ASSERT_TRUE(encoder_->EncodeShort(tensor, ++number_, record));
  const FittedSpec* spec = nullptr;
  EXPECT_EQ(decoder_.ClaimLike(record, &spec), nullptr) << "the first";
  const auto decode = [&](const WireWords& words) {
    std::memcpy(record_.data(), &words, sizeof(words));
    return Decode();
  };
  ASSERT_THAT(decode(record), IsOk());
  for (size_t bit = 0; bit < 8 * sizeof(record); ++bit) {
    WireWords other = record;
    other.words[bit / 64] ^= uint64_t{1} << (bit % 64);
    EXPECT_EQ(decoder_.ClaimLike(other, &spec), nullptr) << bit;
    EXPECT_EQ(decode(record).ok(), true);
  }
  for (int i = 0; i < 3; ++i) {
    const std::shared_ptr<Storage> got = decoder_.ClaimLike(record, &spec);
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(spec->spec(), tensor.spec());
    const Tensor again(*spec, got);
    ASSERT_THAT(tensor.Fill(static_cast<float>(i)), IsOk());
    ExpectIs(again, static_cast<float>(i));
  }
  // The failed claims hold nothing.
  tensor = Tensor();
  EXPECT_THAT(arena->Trim(), IsOk());
  EXPECT_EQ(arena->Use().segments, 0u);
  EXPECT_EQ(decoder_.ClaimLike(record, &spec), nullptr) << "reclaimed";
  decoder_.Sweep();
  EXPECT_EQ(decoder_.ClaimLike(record, &spec), nullptr) << "unmapped";
}

// Two tensors in one block have records that are not like each other.
TEST_F(TensorCodecTest, ARecordOfTheSameBlockWithAnotherSpecIsDecodedAnew) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor wide,
      CreateTensor(*arena, kDtypeOf<float>, {2, 32}, Deadline::Passed()));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor high, wide.Reshape({32, 2}));
  ASSERT_THAT(Through(TensorMessage(wide)), IsOk());
  const FittedSpec* spec = nullptr;
  for (int i = 0; i < 6; ++i) {
    const Tensor& sent = i % 2 == 0 ? wide : high;
    WireWords record;
    ASSERT_TRUE(encoder_->EncodeShort(sent, ++number_, record));
    EXPECT_EQ(decoder_.ClaimLike(record, &spec), nullptr) << i;
    std::memcpy(record_.data(), &record, sizeof(record));
    TENON_ASSERT_OK_AND_ASSIGN(const TensorMessage got, Decode());
    EXPECT_EQ(got.tensor(0).value().spec(), sent.spec());
    EXPECT_NE(decoder_.ClaimLike(record, &spec), nullptr) << i;
    EXPECT_EQ(spec->spec(), sent.spec());
  }
  // These have other forms.
  WireWords record;
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor part, wide.Select(0, 1));
  EXPECT_FALSE(encoder_->EncodeShort(part, ++number_, record));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor turned, wide.Transpose(0, 1));
  EXPECT_FALSE(encoder_->EncodeShort(turned, ++number_, record));
  EXPECT_FALSE(encoder_->EncodeShort(NewTensor(1), ++number_, record));
  EXPECT_FALSE(encoder_->EncodeShort(Tensor(), ++number_, record));
}

// A record of form 3 that ends after its block.
std::vector<std::byte> RecordWithoutSpec(const BlockDescriptor& block) {
  const struct {
    uint16_t magic = 0x5154;
    uint8_t version = 2;
    uint8_t form = 3;
    uint32_t bytes = sizeof(BlockDescriptor);
  } header = {};
  std::vector<std::byte> record(kRecordBytes);
  std::memcpy(record.data(), &header, sizeof(header));
  std::memcpy(&record[sizeof(header)], &block, sizeof(block));
  return record;
}

// Nothing is kept of the record before: a record without a spec is not like
// that.
TEST_F(TensorCodecTest, ARecordWithoutASpecIsDataLoss) {
  const auto is_loss = StatusIs(
      absl::StatusCode::kDataLoss,
      HasSubstr("a record of one tensor, of which the spec is malformed"));
  record_ = RecordWithoutSpec({});
  EXPECT_THAT(Decode(), is_loss) << "the first record";
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
  TENON_ASSERT_OK_AND_ASSIGN(
      const Tensor tensor,
      CreateTensor(*arena, kDtypeOf<float>, {2, 3}, Deadline::Passed()));
  // Publishes the offer of the arena.
  ASSERT_THAT(Through(TensorMessage(tensor)), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const BlockDescriptor block,
                             DescribeBlock(tensor));
  record_.assign(kRecordBytes, std::byte{0});
  ASSERT_NE(WriteTensorRecord(block, tensor.spec(), record_), 0u);
  const std::vector<std::byte> good = record_;
  for (const bool after_malformed : {false, true}) {
    record_ = good;
    ASSERT_THAT(Decode(), IsOk());
    if (after_malformed) {
      record_.assign(kRecordBytes, std::byte{0});
      EXPECT_THAT(Decode(), StatusIs(absl::StatusCode::kDataLoss));
    }
    record_ = RecordWithoutSpec(block);
    EXPECT_THAT(Decode(), is_loss) << after_malformed;
  }
}

TEST_F(TensorCodecTest, ABlockThatWasTakenBackIsDataLoss) {
  ArenaOptions options;
  options.quota_bytes = options.segment_bytes;
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create(options));
  const auto new_tensor = [&] {
    return CreateTensor(*arena, kDtypeOf<float>, {int64_t{1} << 14},
                        Deadline::Passed());
  };
  {
    TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, new_tensor());
    ASSERT_THAT(Encode(TensorMessage(tensor)), IsOk());
  }
  // The block has no holder: it is reused.
  std::vector<Tensor> all;
  for (auto more = new_tensor(); more.ok(); more = new_tensor()) {
    all.push_back(*std::move(more));
  }
  EXPECT_FALSE(all.empty());
  EXPECT_THAT(Decode(), StatusIs(absl::StatusCode::kDataLoss,
                                 HasSubstr("a message of tensors is lost")));
}

TEST_F(TensorCodecTest, ArenasThatAreGoneDoNotCountAgainstTheLimit) {
  TensorDecoder decoder({.max_arenas = 2}, {});
  for (int i = 0; i < 6; ++i) {
    encoder_ = NewEncoder();
    TENON_ASSERT_OK_AND_ASSIGN(const TensorHolds holds,
                               Encode(TensorMessage(NewTensor(2))));
    const auto take = [this] { return fds_.Read(); };
    std::optional<ReceivedTensorFds> item;
    TensorSource source(take, &item);
    TensorMessage got;
    ASSERT_THAT(decoder.Decode(record_, source, &got), IsOk());
    ExpectIs(got.tensor(0), 2);
  }
}

TEST_F(TensorCodecTest, MoreSegmentsThanFitAreLaidOutInTurns) {
  ArenaOptions options;
  options.segment_bytes = 4096;
  std::vector<std::shared_ptr<Arena>> arenas;
  for (int i = 0; i < 120; ++i) {
    TENON_ASSERT_OK_AND_ASSIGN(arenas.emplace_back(), Arena::Create(options));
  }
  TensorDecoder decoder({.max_arenas = 200}, {});
  for (int round = 0; round < 2; ++round) {
    for (const auto& arena : arenas) {
      TENON_ASSERT_OK_AND_ASSIGN(
          const Tensor tensor,
          CreateTensor(*arena, kDtypeOf<float>, {4}, Deadline::Passed()));
      ASSERT_THAT(tensor.Fill(3.0f), IsOk());
      TENON_ASSERT_OK_AND_ASSIGN(const TensorHolds holds,
                                 Encode(TensorMessage(tensor)));
      const auto take = [this] { return fds_.Read(); };
      std::optional<ReceivedTensorFds> item;
      TensorSource source(take, &item);
      TensorMessage got;
      ASSERT_THAT(decoder.Decode(record_, source, &got), IsOk());
      ExpectIs(got.tensor(0), 3);
      taken_ = number_;
    }
  }
}

}  // namespace
}  // namespace tenon
