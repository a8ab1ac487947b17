// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// KeptBlock: a block that an importer has received, for further claims without
// a look-up.

#ifndef TENON_SHM_ARENA_KEPT_BLOCK_H_
#define TENON_SHM_ARENA_KEPT_BLOCK_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

class ReceivedBlocks;

// A value of ArenaTensorImporter::ClaimBlock(), for ClaimAgain() of the same
// importer, which ignores it once the importer keeps the block no longer.
class KeptBlock {
 public:
  KeptBlock() = default;  // None.

 private:
  friend class ReceivedBlocks;
  KeptBlock(void* block, uint64_t epoch) : block_(block), epoch_(epoch) {}

  void* block_ = nullptr;  // Valid in `epoch_` alone.
  uint64_t epoch_ = 0;
};

}  // namespace tenon

#endif  // TENON_SHM_ARENA_KEPT_BLOCK_H_
