// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Each call of the driver that an operation of a pool makes, failed in turn
// with each error that is documented for it.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/device_pool.h"
#include "tenon/cuda_ipc/device_process_testing.h"
#include "tenon/cuda_ipc/device_tensor.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/duplicate_fd.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon::cuda_ipc {
namespace {

constexpr int64_t kCount = 1000;

#define TENON_TEST_NAME(symbol, parameters) #symbol,
#define TENON_TEST_OPTIONAL_NAME(feature, symbol, parameters) #symbol,
constexpr std::array kEntries = {TENON_CUDA_REQUIRED_FUNCTIONS(
    TENON_TEST_NAME) TENON_CUDA_OPTIONAL_FUNCTIONS(TENON_TEST_OPTIONAL_NAME)};
#undef TENON_TEST_NAME
#undef TENON_TEST_OPTIONAL_NAME
using CallCounts = std::array<uint64_t, kEntries.size()>;

absl::Status Expect(bool holds, const char* what) {
  return holds ? absl::OkStatus() : absl::InternalError(what);
}

class DeviceFaultTest : public DeviceProcessTest {
 protected:
  void SetUp() override {
    DeviceProcessTest::SetUp();
    if (!has_fake()) GTEST_SKIP() << "the fake driver's calls fail";
  }

  // How often `body` calls each entry.
  CallCounts CallsOf(const std::function<absl::Status()>& body) const {
    CallCounts calls;
    for (size_t i = 0; i < kEntries.size(); ++i) {
      calls[i] = fake_.Calls(kEntries[i]);
    }
    EXPECT_THAT(body(), IsOk());
    for (size_t i = 0; i < kEntries.size(); ++i) {
      calls[i] = fake_.Calls(kEntries[i]) - calls[i];
    }
    return calls;
  }

  // What a failed call may be without an error: memory that was freed to no
  // avail is freed again, and after one that lacks memory all that is idle is
  // returned.
  static bool MayWork(const std::string& entry, CUresult error) {
    return error == CUDA_ERROR_OUT_OF_MEMORY || entry == "cuMemUnmap" ||
           entry == "cuMemAddressFree";
  }

  void ForEachFault(
      const CallCounts& calls,
      const std::function<void(const std::string& entry, uint64_t nth,
                               CUresult error)>& body) const {
    for (size_t i = 0; i < kEntries.size(); ++i) {
      for (const CUresult error : fake_.DocumentedErrors(kEntries[i])) {
        for (uint64_t nth = 1; nth <= calls[i]; ++nth) {
          SCOPED_TRACE(
              absl::StrCat(kEntries[i], ", call ", nth, ", error ", error));
          body(kEntries[i], nth, error);
        }
      }
    }
  }

  // What this process holds of the devices, once idle memory is returned.
  std::string Held(DevicePool& pool) const {
    EXPECT_THAT(pool.Trim(), IsOk());
    EXPECT_THAT(TrimDeviceTensors(), IsOk());
    std::string held = absl::StrCat(
        CountOpenFds(), " descriptors, ", fake_.HeldBytes(0), " and ",
        fake_.HeldBytes(1), " bytes, ", pool.Use().blocks_in_use, " blocks");
    for (const std::string& leak : fake_.Leaks()) {
      absl::StrAppend(&held, ", ", leak);
    }
    return held;
  }

  // `body` in a child with a pool, once for each fault: an error, or else it
  // works; what it held is returned, and the next time it works.
  void FailEachCall(const std::function<absl::Status(DevicePool& pool)>& body) {
    RunAlone([&] {
      TENON_ASSERT_OK_AND_ASSIGN(const auto pool, DevicePool::Create(0));
      const auto run = [&] { return body(*pool); };
      ASSERT_THAT(run(), IsOk());  // Makes what is made once.
      const std::string before = Held(*pool);
      const CallCounts calls = CallsOf(run);
      int faults = 0;
      ForEachFault(calls,
                   [&](const std::string& entry, uint64_t nth, CUresult error) {
                     if (HasFailure()) return;
                     ASSERT_EQ(Held(*pool), before);
                     fake_.Fail(entry, nth, error);
                     const absl::Status result = run();
                     fake_.StopFailing(entry);
                     EXPECT_TRUE(!result.ok() || MayWork(entry, error));
                     EXPECT_EQ(Held(*pool), before);
                     EXPECT_THAT(run(), IsOk());
                     ++faults;
                   });
      EXPECT_GT(faults, 10);
    });
  }

  static absl::StatusOr<Tensor> Make(DevicePool& pool, int64_t first) {
    TENON_ASSIGN_OR_RETURN(
        Tensor tensor,
        pool.CreateTensor(kDtypeOf<int64_t>, {kCount}, Deadline::Passed()));
    TENON_RETURN_IF_ERROR(tensor.CopyFrom(Numbers(kCount, first)));
    return tensor;
  }
  static absl::Status Check(const Tensor& tensor, int64_t first) {
    TENON_ASSIGN_OR_RETURN(const Tensor here, tensor.ToCpu());
    TENON_ASSIGN_OR_RETURN(const auto data, here.data<const int64_t>());
    for (size_t i = 0; i < data.size(); ++i) {
      TENON_RETURN_IF_ERROR(Expect(data[i] == first + static_cast<int64_t>(i),
                                   "another element"));
    }
    return absl::OkStatus();
  }
};

// In a fresh process each time, since contexts are made once.
TEST_F(DeviceFaultTest, OfCreate) {
  const SharedObject<CallCounts> calls;
  const auto create = [] { return DevicePool::Create(0).status(); };
  RunAlone([&] { *calls = CallsOf(create); });
  int faults = 0;
  ForEachFault(
      *calls, [&](const std::string& entry, uint64_t nth, CUresult error) {
        if (HasFailure()) return;
        RunAlone([&] {
          const size_t fds = CountOpenFds();
          fake_.Fail(entry, nth, error);
          EXPECT_THAT(create(), testing::Not(IsOk()));
          fake_.StopFailing(entry);
          EXPECT_EQ(CountOpenFds(), fds);
          EXPECT_EQ(fake_.HeldBytes(0), 0);
          TENON_ASSERT_OK_AND_ASSIGN(const auto pool, DevicePool::Create(0));
          TENON_ASSERT_OK_AND_ASSIGN(const Tensor tensor, Make(*pool, 7));
          EXPECT_THAT(Check(tensor, 7), IsOk());
        });
        ++faults;
      });
  EXPECT_GT(faults, 10);
}

TEST_F(DeviceFaultTest, OfCreateTensor) {
  FailEachCall([](DevicePool& pool) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, Make(pool, 7));
    return Check(tensor, 7);
  });
}

// An importer of the same process imports like one of another.
TEST_F(DeviceFaultTest, OfReceive) {
  std::optional<Tensor> sent;
  FailEachCall([&](DevicePool& pool) -> absl::Status {
    if (!sent.has_value()) {
      TENON_ASSIGN_OR_RETURN(sent, Make(pool, 7));
    }
    TENON_ASSIGN_OR_RETURN(const ArenaTensorHandle handle, Describe(*sent));
    TENON_ASSIGN_OR_RETURN(const ArenaOffer offer, Offer(*sent));
    std::vector<UniqueFd> fds;
    for (const int fd : offer.fds) {
      TENON_ASSIGN_OR_RETURN(fds.emplace_back(), DuplicateFd(fd, "an offer"));
    }
    ArenaTensorImporter importer;
    TENON_RETURN_IF_ERROR(importer.Accept(offer.bytes, std::move(fds)));
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, importer.Claim(handle));
    TENON_RETURN_IF_ERROR(
        Expect(tensor.storage() != sent->storage(), "it is the owner's"));
    return Check(tensor, 7);
  });
}

TEST_F(DeviceFaultTest, OfTrim) {
  FailEachCall([](DevicePool& pool) -> absl::Status {
    TENON_RETURN_IF_ERROR(Make(pool, 7).status());
    TENON_ASSIGN_OR_RETURN(const size_t bytes, pool.Trim());
    return Expect(bytes == kPage, "the segment was not trimmed");
  });
}

TEST_F(DeviceFaultTest, OfClose) {
  FailEachCall([](DevicePool& pool) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const auto other, DevicePool::Create(pool.device()));
    TENON_RETURN_IF_ERROR(Make(*other, 7).status());
    TENON_RETURN_IF_ERROR(other->Close(Soon()));
    return Expect(other->arena() == nullptr, "it is not closed");
  });
}

TEST_F(DeviceFaultTest, OfClone) {
  FailEachCall([](DevicePool& pool) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, Make(pool, 7));
    TENON_ASSIGN_OR_RETURN(const Tensor clone, tensor.Clone());
    return Check(clone, 7);
  });
}

TEST_F(DeviceFaultTest, OfToAnotherDevice) {
  FailEachCall([](DevicePool& pool) -> absl::Status {
    TENON_ASSIGN_OR_RETURN(const Tensor tensor, Make(pool, 7));
    TENON_ASSIGN_OR_RETURN(const Tensor far, tensor.To({kDLCUDA, 1}));
    return Check(far, 7);
  });
}

}  // namespace
}  // namespace tenon::cuda_ipc
