// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_SHM_ARENA_EXAMPLE_NAMES_H_
#define TENON_SHM_ARENA_EXAMPLE_NAMES_H_

#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_offer.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/attached_arena.h"
#include "tenon/shm/arena/block_descriptor.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"

extern const std::shared_ptr<tenon::Arena> arena;
extern const tenon::Block block;
extern const tenon::Deadline deadline;
extern const size_t frame_bytes;
void Fill(std::byte* bytes);

// An offer that a peer has sent.
extern const std::string offer_bytes;
extern std::vector<tenon::UniqueFd> fds;
extern const tenon::BlockDescriptor descriptor;
extern const tenon::ArenaTensorHandle handle;
extern tenon::ArenaTensorImporter importer;

#endif  // TENON_SHM_ARENA_EXAMPLE_NAMES_H_
