// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/size_text.h"

#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace tenon {
namespace {

constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

TEST(SizeTextTest, SizesAreTruncatedToTenths) {
  EXPECT_EQ(ReadableSize(0), "0 B");
  EXPECT_EQ(ReadableSize(1023), "1023 B");
  EXPECT_EQ(ReadableSize(1024), "1.0 KiB");
  EXPECT_EQ(ReadableSize((1 << 20) - 1), "1023.9 KiB");
  EXPECT_EQ(ReadableSize(33 << 19), "16.5 MiB");
  EXPECT_EQ(ReadableSize(kMost), "16383.9 PiB");
}

TEST(SizeTextTest, MessagesHaveBytesAndUnits) {
  EXPECT_EQ(SizeText(96), "96 bytes");
  EXPECT_EQ(SizeText(65536), "65536 bytes (64.0 KiB)");
  EXPECT_EQ(SizeText(kMost - 1), "18446744073709551614 bytes (16383.9 PiB)");
  EXPECT_EQ(SizeText(kMost), "unlimited");
}

}  // namespace
}  // namespace tenon
