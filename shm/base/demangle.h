// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#ifndef TENON_SHM_BASE_DEMANGLE_H_
#define TENON_SHM_BASE_DEMANGLE_H_

#include <string>

namespace tenon {

// The readable form of a mangled symbol or of a type's name(): "std::string" in
// place of "Ss". Returns `mangled` itself if it is not one. Thread-safe; not
// async-signal-safe.
std::string Demangle(const char* mangled);

}  // namespace tenon

#endif  // TENON_SHM_BASE_DEMANGLE_H_
