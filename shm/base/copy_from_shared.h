// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CopyFromShared: a struct out of memory that another process may be writing.
//
//   const TensorSpec spec = CopyFromShared(&slot->spec);
//   TENON_RETURN_IF_ERROR(spec.CheckFits(size));  // The copy cannot change.
//
// A plain assignment does not suffice: the compiler may read the memory again
// where the copy is used, so that the checked value and the used value differ.
// This reads every word once. The words may come from different writes, so
// their combination must be checked, too.

#ifndef TENON_SHM_BASE_COPY_FROM_SHARED_H_
#define TENON_SHM_BASE_COPY_FROM_SHARED_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// Copies `*from` in whole words, one after the other, each by one atomic load
// with acquire: a word that is loaded later is not older than the copy.
template <typename T>
requires std::is_trivially_copyable_v<T> &&
    (sizeof(T) % sizeof(uint64_t) == 0) &&
    (alignof(T) >= alignof(uint64_t)) T CopyFromShared(const T* from) {
  using Word [[gnu::may_alias]] = uint64_t;
  const Word* const shared = reinterpret_cast<const Word*>(from);
  std::array<uint64_t, sizeof(T) / sizeof(uint64_t)> words;
  for (size_t i = 0; i < words.size(); ++i) {
    words[i] = __atomic_load_n(shared + i, __ATOMIC_ACQUIRE);
  }
  return std::bit_cast<T>(words);
}

}  // namespace tenon

#endif  // TENON_SHM_BASE_COPY_FROM_SHARED_H_
