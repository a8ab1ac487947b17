// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What a process that attaches to an arena, or detaches, says to its owner. One
// packet, no reply (model: att = 1). Descriptors with kAttach, in this order:
//   the lease    one end of a pair of stream sockets: the owner sends a byte
//   and
//                closes it when it looks at the cells no more
//   the column   read and write, so that the owner can reserve its pages;
//   sealed
//                so that nobody can write it
//   the process  its pidfd

#ifndef TENON_SHM_LEDGER_ATTACH_MESSAGE_H_
#define TENON_SHM_LEDGER_ATTACH_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/shm/ledger/random_id.h"

namespace tenon {

struct AttachMessage {
  static constexpr uint64_t kMagic = 0x3168636174746154;  // "Tattach1".
  static constexpr size_t kFds = 3;

  enum Kind : uint64_t { kAttach = 1, kDetach = 2 };

  uint64_t magic = kMagic;
  uint64_t kind = 0;
  RandomId arena;
  // Of this attachment; what kDetach ends.
  RandomId attachment;
  // The cells of the arena's blocks in the column.
  uint64_t first_cell = 0;
  uint64_t cells = 0;
};

static_assert(std::is_trivially_copyable_v<AttachMessage>);
static_assert(std::has_unique_object_representations_v<AttachMessage>);

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_ATTACH_MESSAGE_H_
