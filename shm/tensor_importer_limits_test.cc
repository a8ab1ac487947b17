// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A peer that wants this process to run out of addresses, mappings or
// descriptors: it sends segment after segment, each huge, and empty behind it.

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/dtype.h"
#include "tenon/shm/process_testing.h"
#include "tenon/shm/status_matchers.h"
#include "tenon/shm/storage.h"
#include "tenon/shm/tensor.h"
#include "tenon/shm/tensor_handle.h"
#include "tenon/shm/tensor_importer.h"
#include "tenon/shm/unique_fd.h"

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
    ASSERT_THAT(SendSparse(kTiB),
                StatusIs(kResourceExhausted,
                         HasSubstr("1099511627776 of at most 1099511627776")));
  }
  EXPECT_EQ(importer_.CountStorages(), 1u);
  EXPECT_EQ(CountOpenFds(), fds);
  // One that goes makes room.
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

}  // namespace
}  // namespace tenon
