// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The example of a tensor in README.md, and its receiver.

#include <unistd.h>

#include <utility>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm/testing/status_matchers.h"

namespace tenon {
namespace {

// Export() returns the handle to send.
absl::StatusOr<Tensor> MakeBatch() {
  TENON_ASSIGN_OR_RETURN(Tensor batch,
                         Tensor::Create(kDtypeOf<float>, {8, 3, 32, 32}));
  TENON_ASSIGN_OR_RETURN(const Tensor image, batch.Select(0, 5));
  TENON_RETURN_IF_ERROR(image.Fill(0.5f));
  TENON_RETURN_IF_ERROR(batch.Share());
  return batch;
}

// Another process makes a tensor of the received message: the same memory,
// checked.
absl::StatusOr<float> ReadPixel(TensorImporter& importer,
                                const TensorHandle& handle, UniqueFd fd) {
  TENON_ASSIGN_OR_RETURN(const Tensor batch,
                         importer.Import(handle, std::move(fd)));
  TENON_ASSIGN_OR_RETURN(const float* pixel,
                         batch.at<const float>({5, 0, -1, -1}));
  return *pixel;
}

TEST(TensorExampleTest, WhatOneProcessSharesAnotherReads) {
  TENON_ASSERT_OK_AND_ASSIGN(const Tensor batch, MakeBatch());
  TENON_ASSERT_OK_AND_ASSIGN(const ExportedTensor sent, Export(batch));
  EXPECT_TRUE(PassesInChild([&] {
    TensorImporter importer;
    EXPECT_THAT(ReadPixel(importer, sent.handle, UniqueFd(dup(sent.fd))),
                IsOkAndHolds(0.5f));
  }));
}

}  // namespace
}  // namespace tenon
