// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Sizes in messages.
//
//   absl::StrCat("a block of ", SizeText(bytes))  // "5242880 bytes (5.0 MiB)"

#ifndef TENON_SHM_BASE_SIZE_TEXT_H_
#define TENON_SHM_BASE_SIZE_TEXT_H_

#include <cstdint>
#include <string>

namespace tenon {

// "0 B", "1023 B", "1.0 KiB", "16.5 MiB", "3.2 TiB": truncated, not rounded, so
// that no size is overstated.
std::string ReadableSize(uint64_t bytes);

// "96 bytes", "65536 bytes (64.0 KiB)"; "unlimited" for the largest uint64_t,
// which stands for no limit.
std::string SizeText(uint64_t bytes);

}  // namespace tenon

#endif  // TENON_SHM_BASE_SIZE_TEXT_H_
