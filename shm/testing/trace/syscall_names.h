// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The system calls of Linux on x86-64, up to 6.10, by number and by name.

#ifndef TENON_SHM_TESTING_TRACE_SYSCALL_NAMES_H_
#define TENON_SHM_TESTING_TRACE_SYSCALL_NAMES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace tenon {

// "openat"; "syscall_999" for an unknown one.
std::string SyscallName(uint64_t number);

// The reverse; empty for an unknown name.
std::optional<uint64_t> SyscallNumber(absl::string_view name);

}  // namespace tenon

#endif  // TENON_SHM_TESTING_TRACE_SYSCALL_NAMES_H_
