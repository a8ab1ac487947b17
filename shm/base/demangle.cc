// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace tenon {

std::string Demangle(const char* mangled) {
  int error = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &error), std::free);
  return error == 0 ? readable.get() : mangled;
}

}  // namespace tenon
