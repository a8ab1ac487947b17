// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/tensor/dtype.h"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <string>

#include "dlpack/dlpack.h"
#include "gtest/gtest.h"

struct FourFloats {
  float values[4];
};

template <>
struct tenon::DtypeTraits<FourFloats> {
  static constexpr DLDataType kDtype = {kDLFloat, 32, 4};
};

// Declares 32 bits, and has 64.
struct WrongSize {
  double value;
};

template <>
struct tenon::DtypeTraits<WrongSize> {
  static constexpr DLDataType kDtype = {kDLFloat, 32, 1};
};

namespace tenon {
namespace {

static_assert(TensorElement<float>);
static_assert(TensorElement<long long>);
static_assert(TensorElement<std::complex<double>>);
static_assert(TensorElement<FourFloats>);
static_assert(!TensorElement<WrongSize>);
static_assert(!TensorElement<bool>);
static_assert(!TensorElement<char>);
static_assert(!TensorElement<char8_t>);
static_assert(!TensorElement<wchar_t>);
static_assert(!TensorElement<std::byte>);
static_assert(!TensorElement<float*>);
static_assert(!TensorElement<std::string>);

TEST(DtypeTest, OfTypes) {
  EXPECT_EQ(DtypeName(kDtypeOf<int8_t>), "int8");
  EXPECT_EQ(DtypeName(kDtypeOf<uint8_t>), "uint8");
  EXPECT_EQ(DtypeName(kDtypeOf<int16_t>), "int16");
  EXPECT_EQ(DtypeName(kDtypeOf<uint32_t>), "uint32");
  EXPECT_EQ(DtypeName(kDtypeOf<long>), "int64");
  EXPECT_EQ(DtypeName(kDtypeOf<long long>), "int64");
  EXPECT_EQ(DtypeName(kDtypeOf<float>), "float32");
  EXPECT_EQ(DtypeName(kDtypeOf<double>), "float64");
  EXPECT_EQ(DtypeName(kDtypeOf<std::complex<float>>), "complex64");
  EXPECT_EQ(DtypeName(kDtypeOf<std::complex<double>>), "complex128");
  EXPECT_EQ(DtypeName(kDtypeOf<FourFloats>), "float32x4");
}

TEST(DtypeTest, NamesOfCodes) {
  EXPECT_EQ(DtypeName({kDLBfloat, 16, 1}), "bfloat16");
  EXPECT_EQ(DtypeName({kBoolCode, 8, 1}), "bool8");
  EXPECT_EQ(DtypeName({kDLOpaqueHandle, 64, 1}), "opaque64");
  EXPECT_EQ(DtypeName({10, 8, 1}), "code10:8");
  EXPECT_EQ(DtypeName({255, 0, 0}), "code255:0x0");
}

TEST(DtypeTest, SameInAllThree) {
  const DLDataType dtype = {kDLInt, 8, 2};
  EXPECT_TRUE(SameDtype(dtype, {kDLInt, 8, 2}));
  EXPECT_FALSE(SameDtype(dtype, {kDLUInt, 8, 2}));
  EXPECT_FALSE(SameDtype(dtype, {kDLInt, 16, 2}));
  EXPECT_FALSE(SameDtype(dtype, {kDLInt, 8, 1}));
}

}  // namespace
}  // namespace tenon
