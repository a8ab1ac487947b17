// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A pool in one process.

#include "tenon/cuda_ipc/device_pool.h"

#include <stdlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/devices.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class DevicePoolTest : public DeviceProcessTest {
 protected:
  static std::shared_ptr<DevicePool> MakePool(
      const DevicePoolOptions& options = {}) {
    absl::StatusOr<std::shared_ptr<DevicePool>> pool =
        DevicePool::Create(0, options);
    EXPECT_THAT(pool, IsOk());
    return *std::move(pool);
  }
  static absl::StatusOr<Tensor> Make(DevicePool& pool, int64_t count) {
    return pool.CreateTensor(kDtypeOf<int64_t>, {count}, Deadline::Passed());
  }
  static uintptr_t AddressOf(const Tensor& tensor) {
    return reinterpret_cast<uintptr_t>(
        tensor.device_data<const int64_t>().value());
  }
};

TEST_F(DevicePoolTest, ATensorIsOnTheDeviceAndNotForTheCpu) {
  RunAlone([&] {
    const auto pool = MakePool();
    absl::StatusOr<Tensor> tensor = Make(*pool, 1000);
    ASSERT_THAT(tensor, IsOk());
    EXPECT_EQ(tensor->device().device_type, kDLCUDA);
    EXPECT_EQ(tensor->device().device_id, 0);
    EXPECT_TRUE(tensor->is_shared());
    EXPECT_THAT(tensor->data<int64_t>(),
                StatusIs(absl::StatusCode::kFailedPrecondition));
    ASSERT_THAT(tensor->CopyFrom(Numbers(1000, 7)), IsOk());
    EXPECT_TRUE(HasNumbers(*tensor, 7));
  });
}

TEST_F(DevicePoolTest, EveryTensorIsAlignedAsKernelsExpect) {
  RunAlone([&] {
    const auto pool = MakePool();
    std::vector<Tensor> all;
    for (int64_t count : {1, 2, 8, 9, 31, 33, 65, 80, 100, 112, 200, 1000}) {
      for (int i = 0; i < 3; ++i) {
        absl::StatusOr<Tensor> tensor = Make(*pool, count);
        ASSERT_THAT(tensor, IsOk());
        EXPECT_EQ(AddressOf(*tensor) % 256, 0) << count;
        all.push_back(*std::move(tensor));
      }
    }
  });
}

TEST_F(DevicePoolTest, AFreeBlockCostsNoDriverCall) {
  RunAlone([&] {
    const auto pool = MakePool();
    ASSERT_THAT(Make(*pool, 1000), IsOk());
    const uint64_t before = Calls();
    for (int i = 0; i < 1000; ++i) ASSERT_THAT(Make(*pool, 1000), IsOk());
    EXPECT_EQ(Calls(), before);
    EXPECT_EQ(pool->Use().segments, 1);
  });
}

TEST_F(DevicePoolTest, SegmentsStartSmallAndGrow) {
  RunAlone([&] {
    const auto pool = MakePool({.largest_segment_bytes = 4 * kPage});
    std::vector<Tensor> all;
    std::vector<size_t> sizes;
    for (size_t bytes = 0; sizes.size() < 4;) {
      absl::StatusOr<Tensor> tensor = Make(*pool, 64 << 10);  // 512 KiB.
      ASSERT_THAT(tensor, IsOk());
      all.push_back(*std::move(tensor));
      const size_t now = pool->Use().segment_bytes;
      if (now != bytes) sizes.push_back(now - bytes);
      bytes = now;
    }
    EXPECT_THAT(sizes,
                ::testing::ElementsAre(kPage, 2 * kPage, 4 * kPage, 4 * kPage));
    // A larger one has a segment of its own, in whole units.
    const size_t before = pool->Use().segment_bytes;
    ASSERT_THAT(Make(*pool, (8 * kPage + 8) / 8), IsOk());
    EXPECT_EQ((pool->Use().segment_bytes - before) % kPage, 0);
  });
}

TEST_F(DevicePoolTest, TheQuotaAndTheDeviceAreLimits) {
  RunAlone([&] {
    const auto pool = MakePool({.quota_bytes = 2 * kPage});
    const absl::StatusOr<Tensor> first = Make(*pool, kPage / 8);
    const absl::StatusOr<Tensor> second = Make(*pool, kPage / 8);
    ASSERT_THAT(second, IsOk());
    EXPECT_THAT(Make(*pool, kPage / 8),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         AllOf(HasSubstr("arena 'device'"),
                               HasSubstr("the quota is used up"))));
  });
  if (!has_fake()) return;
  RunAlone(
      [&] {
        const auto pool = MakePool();
        const absl::StatusOr<Tensor> first = Make(*pool, kPage / 8);
        ASSERT_THAT(first, IsOk());
        EXPECT_THAT(Make(*pool, kPage / 8 + 1),
                    StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("cuMemCreate(device 0)")));
      },
      "memory0=4194304");
}

TEST_F(DevicePoolTest, TrimReturnsIdleSegmentsToTheDevice) {
  RunAlone([&] {
    const auto pool = MakePool();
    const absl::StatusOr<Tensor> kept = Make(*pool, 1000);
    ASSERT_THAT(kept, IsOk());
    ASSERT_THAT(Make(*pool, kPage / 8), IsOk());
    if (has_fake()) {
      EXPECT_EQ(fake_.HeldBytes(0), 2 * kPage);
    }
    EXPECT_THAT(pool->Trim(), IsOkAndHolds(kPage));
    if (has_fake()) {
      EXPECT_EQ(fake_.HeldBytes(0), kPage);
    }
    EXPECT_EQ(pool->Use().blocks_in_use, 1);
  });
}

TEST_F(DevicePoolTest, WipedTensorsAreZeroWhenNewAndWhenReused) {
  RunAlone([&] {
    const auto pool = MakePool({.wipe = true});
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<Tensor> tensor = Make(*pool, 100);
      ASSERT_THAT(tensor, IsOk());
      const absl::StatusOr<Tensor> here = tensor->ToCpu();
      ASSERT_THAT(here, IsOk());
      EXPECT_THAT(*here->data<const int64_t>(), ::testing::Each(0));
      ASSERT_THAT(tensor->CopyFrom(Numbers(100, 7)), IsOk());
    }
  });
}

TEST_F(DevicePoolTest, CloseWaitsForTensorsAndThenLeavesThemToTheirHolders) {
  RunAlone([&] {
    const auto pool = MakePool();
    std::optional<Tensor> left = *Make(*pool, 1000);
    ASSERT_THAT(left->CopyFrom(Numbers(1000, 3)), IsOk());
    EXPECT_THAT(
        pool->Close(Deadline::After(absl::Milliseconds(30))),
        StatusIs(absl::StatusCode::kDeadlineExceeded,
                 AllOf(HasSubstr("device pool 'device' is closed"),
                       HasSubstr("2097152 bytes (2.0 MiB) in 1 segments"),
                       HasSubstr("1 block"))));
    EXPECT_THAT(Make(*pool, 1), StatusIs(absl::StatusCode::kFailedPrecondition,
                                         HasSubstr("closed")));
    EXPECT_THAT(pool->Trim(), StatusIs(absl::StatusCode::kFailedPrecondition));
    EXPECT_EQ(pool->arena(), nullptr);
    EXPECT_THAT(pool->Holders(), IsOkAndHolds(IsEmpty()));
    EXPECT_THAT(pool->Close(Deadline::Passed()), IsOk());
    EXPECT_TRUE(HasNumbers(*left, 3));
    const uint64_t before = Calls();
    left.reset();
    if (!has_fake()) return;
    // A thread of its own unmaps the memory, and not this one.
    EXPECT_TRUE(Becomes([&] { return fake_.HeldBytes(0) == 0; }));
    EXPECT_EQ(Calls(), before + 2);
  });
}

TEST_F(DevicePoolTest, CloseEndsAsSoonAsTheLastTensorIsDropped) {
  RunAlone([&] {
    const auto pool = MakePool();
    { const absl::StatusOr<Tensor> tensor = Make(*pool, 1000); }
    EXPECT_THAT(pool->Close(Soon()), IsOk());
    if (has_fake()) {
      EXPECT_EQ(fake_.HeldBytes(0), 0);
      // What is left is made once for each process.
      EXPECT_THAT(fake_.Leaks(), SizeIs(1));
    }
  });
}

TEST_F(DevicePoolTest, HoldersAndUseAreReported) {
  RunAlone([&] {
    const auto pool = MakePool({.name = "frames"});
    const absl::StatusOr<Tensor> tensor = Make(*pool, 1000);
    absl::StatusOr<std::vector<HolderUse>> holders = pool->Holders();
    ASSERT_THAT(holders, IsOkAndHolds(SizeIs(1)));
    EXPECT_EQ(holders->front().pid, getpid());
    EXPECT_EQ(holders->front().blocks, 1);
    EXPECT_EQ(pool->Use().segment_bytes, kPage);
  });
}

TEST_F(DevicePoolTest, ADeviceIsFoundByUuidInAnyOrder) {
  if (!has_fake()) GTEST_SKIP() << "selects devices of the fake driver";
  std::array<uint8_t, 16> second = {0xfa, 0x4e};
  second[15] = 1;
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  RunAlone([&] {
    absl::StatusOr<std::shared_ptr<DevicePool>> pool =
        DevicePool::Create(second);
    ASSERT_THAT(pool, IsOk());
    EXPECT_EQ((*pool)->device().device().ordinal, 0);
    EXPECT_EQ((*pool)->device().device().uuid[15], 1);
  });
  unsetenv("CUDA_VISIBLE_DEVICES");
  RunAlone([&] {
    EXPECT_THAT(DevicePool::Create(7),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("device 7")));
  });
  RunAlone(
      [&] {
        EXPECT_THAT(DevicePool::Create(0),
                    StatusIs(absl::StatusCode::kUnimplemented));
      },
      "attribute0=103:0");
}

TEST_F(DevicePoolTest, AForkedChildIsRefused) {
  RunAlone([&] {
    const auto pool = MakePool();
    const absl::StatusOr<Tensor> tensor = Make(*pool, 1000);
    ASSERT_THAT(tensor, IsOk());
    EXPECT_TRUE(PassesInChild(
        [&] {
          const auto is_refused =
              StatusIs(absl::StatusCode::kFailedPrecondition);
          EXPECT_THAT(GetDriver(),
                      StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("StartMethod::kSpawn")));
          EXPECT_THAT(DevicePool::Create(0), is_refused);
          EXPECT_THAT(Make(*pool, 1000), is_refused);
          EXPECT_THAT(tensor->ToCpu(), is_refused);
          EXPECT_THAT(pool->Trim(), is_refused);
        },
        /*may_have_threads=*/true));
    ASSERT_THAT(tensor->CopyFrom(Numbers(1000, 1)), IsOk());
  });
}

}  // namespace
}  // namespace tenon::cuda_ipc
