// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Every public header reaches this one first, so that a compilation with an
// older dialect ends here, and not after pages of errors.

#ifndef TENON_SHM_BASE_CPLUSPLUS_20_H_
#define TENON_SHM_BASE_CPLUSPLUS_20_H_

#if __cplusplus < 202002L
#error "Tenon needs C++20: compile with -std=c++20 (Bazel: --cxxopt=-std=c++20)"
// No compiler goes on after an include that it does not find.
#include "tenon/needs/cplusplus_20"
#endif

#endif  // TENON_SHM_BASE_CPLUSPLUS_20_H_
