// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of DLPack: DLPackTest, once for each of its two forms, with another
// library that lends tensors.

#ifndef TENON_SHM_TENSOR_EXCHANGE_DLPACK_TESTING_H_
#define TENON_SHM_TENSOR_EXCHANGE_DLPACK_TESTING_H_

#include <cstdint>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "dlpack/dlpack.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/exchange/dlpack.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/third_party/dlpack/dlpack_versioned.h"

namespace tenon {

inline constexpr DLDataType kInt32 = kDtypeOf<int32_t>;

// 0, 1, 2, ...
inline Tensor Counting(absl::Span<const int64_t> shape) {
  Tensor tensor = Tensor::Create(kInt32, shape).value();
  const auto elements = tensor.data<int32_t>().value();
  std::iota(elements.begin(), elements.end(), 0);
  return tensor;
}

// The differences between the versioned form and the older one.
template <typename Managed>
struct DLPackForm;

template <>
struct DLPackForm<DLManagedTensorVersioned> {
  using Owner = DLPackTensor;
  static absl::StatusOr<Owner> To(const Tensor& tensor) {
    return ToDLPack(tensor);
  }
  static void SetUp(DLManagedTensorVersioned& managed) {
    managed.version = {1, 0};
  }
};

template <>
struct DLPackForm<DLManagedTensor> {
  using Owner = LegacyDLPackTensor;
  static absl::StatusOr<Owner> To(const Tensor& tensor) {
    return ToLegacyDLPack(tensor);
  }
  static void SetUp(DLManagedTensor&) {}
};

template <typename Managed>
class DLPackTest : public testing::Test {
 protected:
  using Owner = typename DLPackForm<Managed>::Owner;

  // Another library: it has 24 numbers, lends them, and counts the deleter's
  // calls.
  struct Producer {
    Producer() { std::iota(std::begin(numbers), std::end(numbers), 0); }

    Owner Lend() {
      auto* managed = new Managed{};
      DLPackForm<Managed>::SetUp(*managed);
      managed->dl_tensor = tensor;
      managed->manager_ctx = this;
      managed->deleter = [](Managed* self) {
        ++static_cast<Producer*>(self->manager_ctx)->returned;
        delete self;
      };
      return Owner(managed);
    }

    absl::StatusOr<Tensor> Give() { return FromDLPack(Lend()); }

    int32_t numbers[24];
    std::vector<int64_t> shape = {2, 3, 4};
    std::vector<int64_t> strides = {12, 4, 1};
    DLTensor tensor = {.data = numbers,
                       .device = {kDLCPU, 0},
                       .ndim = 3,
                       .dtype = kInt32,
                       .shape = shape.data(),
                       .strides = strides.data(),
                       .byte_offset = 0};
    int returned = 0;
  };

  // The producer's changed tensor is rejected, and its deleter called.
  void ExpectRefused(Producer& producer, const std::string& why) {
    EXPECT_THAT(producer.Give(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          testing::HasSubstr(why)));
    EXPECT_EQ(producer.returned, 1) << why;
  }
};

using DLPackForms = testing::Types<DLManagedTensorVersioned, DLManagedTensor>;

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_EXCHANGE_DLPACK_TESTING_H_
