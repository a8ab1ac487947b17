// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Regular use. Hostile peers: tensor_importer_hostile_test.cc. Limits:
// tensor_importer_limits_test.cc.

#include "tenon/shm/tensor/exchange/tensor_importer.h"

#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer_testing.h"
#include "tenon/shm/tensor/storage.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST_P(TensorImporterTest, ArrivesInAnotherProcess) {
  const Tensor tensor = Counting({3, 4});
  const ExportedTensor exported =
      Export(tensor.Transpose(0, 1).value()).value();
  EXPECT_EQ(exported.fd >= 0, !by_name());
  EXPECT_TRUE(PassesInChild([&] {
    // The child has only the bytes and a descriptor.
    Delivery delivery = Deliver(exported);
    TensorImporter importer;
    const auto received =
        importer.Import(delivery.handle, std::move(delivery.fd));
    ASSERT_THAT(received, IsOk());
    EXPECT_EQ(received->spec().ToString(), "int32[4, 3] with strides [1, 4]");
    EXPECT_EQ(*received->at<const int32_t>({3, 2}).value(), 11);
    EXPECT_EQ(received->writable(), !owner_written());
    if (owner_written()) {
      EXPECT_THAT(received->at<int32_t>({0, 0}),
                  StatusIs(absl::StatusCode::kFailedPrecondition));
    } else {
      *received->at<int32_t>({0, 0}).value() = 100;
    }
  }));
  EXPECT_EQ(*tensor.at<const int32_t>({0, 0}).value(),
            owner_written() ? 0 : 100);
}

TEST_P(TensorImporterTest, ViewsSentSeparatelyAreOfOneStorage) {
  const Tensor tensor = Counting({4, 5});
  TensorImporter importer;
  const size_t fds = CountOpenFds();
  const auto rows = Send(tensor.Slice(0, {.start = 2}).value(), importer);
  ASSERT_THAT(rows, IsOk());
  const auto column = Send(tensor.Select(1, 4).value(), importer);
  ASSERT_THAT(column, IsOk());
  EXPECT_EQ(rows->storage(), column->storage());
  EXPECT_NE(rows->storage(), tensor.storage());
  EXPECT_EQ(importer.CountStorages(), 1u);
  // One descriptor, and none for a name.
  EXPECT_TRUE(
      Becomes([&] { return CountOpenFds() <= fds + (by_name() ? 0 : 1); }));
  *tensor.at<int32_t>({3, 4}).value() = -7;
  EXPECT_EQ(*rows->at<const int32_t>({1, 4}).value(), -7);
  EXPECT_EQ(rows->at<const int32_t>({1, 4}).value(),
            column->at<const int32_t>({3}).value());
}

TEST_P(TensorImporterTest, MayBePassedOn) {
  const Tensor tensor = Counting({6});
  TensorImporter second;
  const auto b = Send(tensor, second);
  ASSERT_THAT(b, IsOk());
  TensorImporter third;
  const auto c = Send(b->Slice(0, {.start = 4}).value(), third);
  ASSERT_THAT(c, IsOk());
  EXPECT_EQ(c->storage()->id(), tensor.storage()->id());
  EXPECT_THAT(c->data<const int32_t>().value(), ElementsAre(4, 5));
}

TEST_P(TensorImporterTest, StoragesThatDiedAreForgotten) {
  const Tensor tensor = Counting({4});
  TensorImporter importer;
  const size_t fds = CountOpenFds();
  for (int i = 0; i < 3; ++i) {
    const auto received = Send(tensor, importer);
    ASSERT_THAT(received, IsOk());
    EXPECT_EQ(importer.CountStorages(), 1u);
  }
  EXPECT_EQ(importer.CountStorages(), 0u);
  EXPECT_TRUE(Becomes([&] { return CountOpenFds() <= fds; }));
}

TEST_P(TensorImporterTest, WhatComesBackIsWhatWasSent) {
  const Tensor tensor = Counting({6});
  TensorImporter importer;
  importer.Recognize(tensor);
  importer.Recognize(tensor.Select(0, 0).value());
  EXPECT_EQ(importer.CountStorages(), 1u);
  TensorImporter peer;
  const Tensor there = Send(tensor, peer).value();
  const auto back = Send(there.Slice(0, {.start = 3}).value(), importer);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->storage(), tensor.storage());
  EXPECT_TRUE(back->writable());
}

TEST_P(TensorImporterTest, WithoutElementsNothingIsSentAlong) {
  const auto tensor = Tensor::CreateShared(
      kInt, {0, 3},
      {.kind = GetParam().kind, .segment = {.strategy = GetParam().strategy}});
  ASSERT_THAT(tensor, IsOk());
  const ExportedTensor exported = Export(*tensor).value();
  EXPECT_THAT(exported.fds(), IsEmpty());
  TensorImporter importer;
  const auto received = Send(*tensor, importer);
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->spec().ToString(), "int32[0, 3]");
  EXPECT_TRUE(received->is_shared());
  EXPECT_THAT(Send(*received, importer), IsOk());
}

TEST_P(TensorImporterTest, OfAStorageWithElementsAViewMayHaveNone) {
  const Tensor tensor = Counting({4});
  TensorImporter importer;
  const auto received = Send(tensor.Slice(0, {.start = 4}).value(), importer);
  ASSERT_THAT(received, IsOk());
  EXPECT_EQ(received->spec().elements(), 0);
}

// The sender's tensor may be destroyed before arrival if a descriptor was sent.
TEST_P(TensorImporterTest, WhatKeepsItAliveOnTheWay) {
  Tensor tensor = Counting({4});
  Delivery delivery = Deliver(Export(tensor).value());
  tensor = Tensor();
  TensorImporter importer;
  const auto received =
      importer.Import(delivery.handle, std::move(delivery.fd));
  if (by_name()) {
    EXPECT_THAT(received, StatusIs(absl::StatusCode::kNotFound));
  } else {
    ASSERT_THAT(received, IsOk());
    EXPECT_THAT(received->data<const int32_t>().value(),
                ElementsAre(0, 1, 2, 3));
  }
}

TEST_P(TensorImporterTest, ManyThreadsGetOneStorage) {
  const Tensor tensor = Counting({8, 8});
  TensorImporter importer;
  std::vector<Tensor> received(4);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < received.size(); ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 100; ++n) {
        const auto one = Send(tensor.Select(0, n % 8).value(), importer);
        ASSERT_THAT(one, IsOk());
        ASSERT_EQ(*one->at<const int32_t>({0}).value(), n % 8 * 8);
        if (n == 99) received[i] = *one;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Tensor& one : received) {
    EXPECT_EQ(one.storage(), received[0].storage());
  }
  EXPECT_EQ(importer.CountStorages(), 1u);
}

INSTANTIATE_TEST_SUITE_P(All, TensorImporterTest, AllImporterCases());

}  // namespace
}  // namespace tenon
