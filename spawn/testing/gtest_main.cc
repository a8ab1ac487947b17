// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// main() of tests that start processes: it replaces GoogleTest's own, which
// does not call spawn::Init().

#include "gtest/gtest.h"
#include "tenon/spawn/child/init.h"

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
