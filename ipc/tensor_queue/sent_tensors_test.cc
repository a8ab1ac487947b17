// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/tensor_queue/sent_tensors.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tenon/ipc/tensor_codec/tensor_encoder.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon {
namespace {

std::shared_ptr<Storage> NewStorage(size_t bytes) {
  return Storage::CreatePrivate(bytes).value();
}

// Messages come and go across the end of the ring, which grows when they are
// more than it has room for.
TEST(SentTensorsTest, ReferencesAreDroppedInTheirOrder) {
  SentTensors sent;
  std::vector<std::weak_ptr<Storage>> storages = {{}};
  uint64_t taken = 0;
  for (const uint64_t burst : {20, 31, 3, 100, 1, 250}) {
    for (uint64_t i = 0; i < burst; ++i) {
      const auto storage = NewStorage(10);
      const uint64_t number = storages.size();
      storages.push_back(storage);
      if (number % 7 == 0) {
        TensorHolds holds;
        holds.storages.push_back(storage);
        sent.Add(number, std::move(holds));
      } else {
        sent.Add(number, storage);
      }
    }
    EXPECT_EQ(sent.size(), storages.size() - 1 - taken);
    taken += (storages.size() - taken) * 2 / 3;
    sent.DropTaken(taken);
    EXPECT_EQ(sent.size(), storages.size() - 1 - taken);
    EXPECT_EQ(sent.bytes(), 10 * sent.size());
    for (uint64_t i = 1; i < storages.size(); ++i) {
      EXPECT_EQ(storages[i].expired(), i <= taken) << i;
    }
  }
  sent.DropTaken(~uint64_t{0});
  EXPECT_TRUE(sent.empty());
  EXPECT_EQ(sent.bytes(), 0u);
  for (const auto& storage : storages) EXPECT_TRUE(storage.expired());
}

TEST(SentTensorsTest, ACancelledMessageIsDroppedWithThoseAfterIt) {
  SentTensors sent;
  const auto storage = NewStorage(100);
  for (uint64_t number = 1; number <= 5; ++number) sent.Add(number, storage);
  sent.Cancel(4);
  EXPECT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent.bytes(), 300u);
  EXPECT_EQ(storage.use_count(), 1 + 3);
  sent.Add(4, storage);
  sent.DropTaken(3);
  EXPECT_EQ(sent.size(), 1u);
  sent.Cancel(1);
  EXPECT_TRUE(sent.empty());
  EXPECT_EQ(storage.use_count(), 1);
}

}  // namespace
}  // namespace tenon
