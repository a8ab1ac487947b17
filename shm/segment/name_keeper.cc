// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/segment/name_keeper.h"

#include <atomic>

namespace tenon {
namespace {

constinit std::atomic<NameKeeper*> name_keeper = nullptr;

}  // namespace

NameKeeper* GetNameKeeper() {
  return name_keeper.load(std::memory_order_acquire);
}

void SetNameKeeper(NameKeeper* keeper) {
  name_keeper.store(keeper, std::memory_order_release);
}

}  // namespace tenon
