// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The layout of a column, for the process that writes it (column.h) and for its
// readers.
//
//   header | directory: which arena has which cells | cells
//
// A reader copies a struct (copy_from_shared.h), checks it, and uses the copy.

#ifndef TENON_SHM_LEDGER_COLUMN_LAYOUT_H_
#define TENON_SHM_LEDGER_COLUMN_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/shm/base/random_id.h"
#include "tenon/shm/base/wire_version.h"

namespace tenon {

struct ColumnLayout {
  static constexpr uint64_t kMagic = 0x316e6d756c6f6354;  // "Tcolumn1".
  // Of columns, attach messages and the tables of arenas: a process that can
  // read one of them can read all.
  static uint32_t Version() { return WireVersion(4); }
  static constexpr char kLabel[] = "tenon.column";

  // Of addresses; unused pages take no memory.
  static constexpr size_t kBytes = size_t{1} << 30;
  static constexpr size_t kCellsAt = size_t{64} << 10;
  static constexpr uint64_t kCells = (kBytes - kCellsAt) / sizeof(uint64_t);
  static constexpr uint64_t kMaxArenas = 512;
  // An arena's cells begin at a page, so that its owner can map them alone;
  // pages of up to 64 KiB, as some kernels have.
  static constexpr uint64_t kCellsAlignment = kCellsAt / sizeof(uint64_t);

  static constexpr size_t CellAt(uint64_t cell) {
    return kCellsAt + static_cast<size_t>(cell) * sizeof(uint64_t);
  }
};

struct ColumnHeader {
  uint64_t magic;  // Written last.
  uint64_t version;
  RandomId id;
  uint64_t pid;  // In the writer's pid namespace.
  char name[40];
};

struct ColumnDirectoryEntry {
  uint64_t used;  // 1: the rest is valid. Written last, and cleared first.
  RandomId arena;
  uint64_t first_cell;
  uint64_t cells;
};

static_assert(std::is_trivially_copyable_v<ColumnHeader>);
static_assert(std::is_trivially_copyable_v<ColumnDirectoryEntry>);
static_assert(sizeof(ColumnHeader) +
                  ColumnLayout::kMaxArenas * sizeof(ColumnDirectoryEntry) <=
              ColumnLayout::kCellsAt);

}  // namespace tenon

#endif  // TENON_SHM_LEDGER_COLUMN_LAYOUT_H_
