// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The example of the README, as a test.

#include <fcntl.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

// The owner makes a frame in place. Offer() returns the message to send once
// per segment, Describe() the one to send each time.
absl::StatusOr<Tensor> MakeFrame(Arena& arena) {
  TENON_ASSIGN_OR_RETURN(Tensor frame,
                         CreateTensor(arena, kDtypeOf<float>, {3, 48, 64},
                                      Deadline::After(absl::Seconds(1))));
  TENON_RETURN_IF_ERROR(frame.Fill(0.5f));
  return frame;
}

// The receiver claims it before it acknowledges the message; until then the
// owner keeps its tensor. No system call, no copy.
absl::StatusOr<float> ReadPixel(ArenaTensorImporter& importer,
                                const ArenaTensorHandle& handle) {
  TENON_ASSIGN_OR_RETURN(const Tensor frame, importer.Claim(handle));
  TENON_ASSIGN_OR_RETURN(const float* pixel, frame.at<const float>({2, 0, 0}));
  return *pixel;  // `frame` ends here, and the block may be used again.
}

TEST(ArenaExampleTest, Works) {
  TENON_ASSERT_OK_AND_ASSIGN(const auto arena,
                             Arena::Create({.name = "frames"}));
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor frame, MakeFrame(*arena));
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaOffer offer, Offer(frame));
  std::vector<UniqueFd> fds;
  for (const int fd : offer.fds) {
    fds.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  }
  ArenaTensorImporter importer;
  ASSERT_THAT(importer.Accept(offer.bytes, std::move(fds)), IsOk());
  TENON_ASSERT_OK_AND_ASSIGN(const ArenaTensorHandle handle, Describe(frame));
  EXPECT_THAT(ReadPixel(importer, handle), IsOkAndHolds(0.5f));
}

}  // namespace
}  // namespace tenon
