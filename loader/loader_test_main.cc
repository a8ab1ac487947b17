// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// main() of the tests of loaders: their workers are this program, too.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/loader/testing/test_datasets.h"
#include "tenon/spawn/child/init.h"

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  tenon::loader::MarkAsConsumer();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
