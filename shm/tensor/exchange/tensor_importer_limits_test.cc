// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A peer that wants this process to run out of addresses, mappings or
// descriptors: it sends segment after segment, each huge and without pages.

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/exchange/tensor_importer_testing.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::HasSubstr;

constexpr auto kResourceExhausted = absl::StatusCode::kResourceExhausted;
constexpr uint64_t kTiB = uint64_t{1} << 40;

class HugeSegmentsTest : public testing::Test {
 protected:
  // A tensor of a few elements in a segment of `size_bytes`, of which no page
  // is allocated.
  absl::StatusOr<Tensor> SendSparse(uint64_t size_bytes) {
    UniqueFd fd(memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(size_bytes)), 0);
    EXPECT_EQ(
        fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
        0);
    TensorHandle handle = Export(honest_).value().handle;
    handle.storage_bytes = size_bytes;
    handle.id = Storage::Identify(fd.get(), "sparse").value();
    return importer_.Import(handle, std::move(fd));
  }

  const Tensor honest_ = Tensor::CreateShared(kDtypeOf<int32_t>, {4}).value();
  TensorImporter importer_;
};

TEST_F(HugeSegmentsTest, AreTakenUpToTheLimitAndNoFurther) {
  TENON_ASSERT_OK_AND_ASSIGN(Tensor first, SendSparse(kTiB));
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 2000; ++i) {
    ASSERT_THAT(
        SendSparse(kTiB),
        StatusIs(kResourceExhausted,
                 HasSubstr("bytes (1.0 TiB) of at most 1099511627776")));
  }
  EXPECT_EQ(importer_.CountStorages(), 1u);
  EXPECT_EQ(CountOpenFds(), fds);
  // A destroyed one makes room.
  first = Tensor();
  EXPECT_THAT(SendSparse(kTiB), IsOk());
}

TEST_F(HugeSegmentsTest, AreNotTakenIfOneIsMoreThanAll) {
  const size_t fds = CountOpenFds();
  for (const uint64_t size : {kTiB + 1, uint64_t{1} << 47, uint64_t{1} << 62}) {
    EXPECT_THAT(SendSparse(size),
                StatusIs(kResourceExhausted, HasSubstr("at most")));
  }
  EXPECT_EQ(importer_.CountStorages(), 0u);
  EXPECT_EQ(CountOpenFds(), fds);
}

TEST(TensorImporterLimitsTest, OfStorages) {
  TensorImporter importer({.max_storages = 2});
  std::vector<Tensor> sent;
  std::vector<Tensor> received;
  for (int i = 0; i < 3; ++i) {
    sent.push_back(Tensor::CreateShared(kInt, {4}).value());
  }
  received.push_back(Send(sent[0], importer).value());
  received.push_back(Send(sent[1], importer).value());
  EXPECT_THAT(Send(sent[2], importer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("2 of at most 2 storages")));
  // Known ones may be received again, and a destroyed one makes room.
  EXPECT_THAT(Send(sent[1], importer), IsOk());
  received.pop_back();
  EXPECT_THAT(Send(sent[2], importer), IsOk());
}

TEST(TensorImporterLimitsTest, OfBytes) {
  TensorImporter importer({.max_bytes = 1000});
  const Tensor most = Tensor::CreateShared(kInt, {200}).value();
  const Tensor some = Tensor::CreateShared(kInt, {50}).value();
  const Tensor more = Tensor::CreateShared(kInt, {51}).value();
  const Tensor too_many = Tensor::CreateShared(kInt, {251}).value();
  EXPECT_THAT(Send(too_many, importer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("at most 1000")));
  // A small view of a storage that is too large.
  EXPECT_THAT(Send(too_many.Select(0, 0).value(), importer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("0 bytes of at most 1000 bytes")));
  Tensor received = Send(most, importer).value();
  EXPECT_THAT(Send(more, importer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("800 bytes of at most 1000 bytes")));
  EXPECT_THAT(Send(some, importer), IsOk());
  received = Tensor();
  EXPECT_THAT(Send(more, importer), IsOk());
}

// Enough to trigger the removal of expired entries.
TEST(TensorImporterLimitsTest, ManyThatComeAndGo) {
  TensorImporter importer({.max_bytes = 400, .max_storages = 10});
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 1000; ++i) {
    const Tensor tensor = Tensor::CreateShared(kInt, {10}).value();
    const auto received = Send(tensor, importer);
    ASSERT_THAT(received, IsOk());
  }
  EXPECT_EQ(importer.CountStorages(), 0u);
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

TEST(TensorImporterLimitsTest, RecognizedOnesDoNotCount) {
  TensorImporter importer({.max_storages = 1});
  std::vector<Tensor> own;
  for (int i = 0; i < 350; ++i) {
    own.push_back(Tensor::CreateShared(kInt, {1}).value());
    importer.Recognize(own.back());
    if (own.size() == 100) own.clear();
  }
  EXPECT_EQ(importer.CountStorages(), own.size());
  importer.Recognize(Tensor::Create(kInt, {1}).value());
  importer.Recognize(Tensor());
  EXPECT_EQ(importer.CountStorages(), own.size());
  EXPECT_THAT(Send(Tensor::CreateShared(kInt, {1}).value(), importer), IsOk());
  EXPECT_THAT(Send(own[0], importer), IsOk());
}

}  // namespace
}  // namespace tenon
