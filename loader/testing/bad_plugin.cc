// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Shared libraries that a worker program cannot use, each for another reason.

#include <signal.h>

#include <stdexcept>

#if defined(TENON_PLUGIN_THROWS)
#include "tenon/loader/data/plugin_version.h"
namespace {
int Throw() { throw std::runtime_error("no such device"); }
const int thrown = Throw();
}  // namespace
#elif defined(TENON_PLUGIN_DIES)
namespace {
const int died = raise(SIGKILL);
}  // namespace
#elif defined(TENON_PLUGIN_LACKS_A_FUNCTION)
#include "tenon/loader/data/plugin_version.h"
void TenonFunctionThatIsNowhere();
void (*tenon_needs_it)() = TenonFunctionThatIsNowhere;
#elif defined(TENON_PLUGIN_OF_ANOTHER_VERSION)
// That of this Tenon, but for the number.
#include "loader/testing/another_plugin_version.h"
#endif
