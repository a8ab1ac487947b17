// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// kPluginVersion: what a consumer, its worker program and the program's plugin
// must have in common.

#ifndef TENON_LOADER_DATA_PLUGIN_VERSION_H_
#define TENON_LOADER_DATA_PLUGIN_VERSION_H_

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// The version of Tenon (bazel/version.bzl), and a number that changes with each
// change of the messages between a loader and its workers, and of the classes
// of datasets. Not inline: an inline variable is one in the whole process, and
// that of the worker program would take the place of the plugin's.
constexpr char kPluginVersion[] = "0.1.0/6";

}  // namespace tenon::loader

// Of the shared library or program that includes this; found by dlsym(). Weak,
// so each file that includes it may have one; the name is that of a C symbol.
// NOLINTBEGIN(misc-definitions-in-headers,readability-identifier-naming)
extern "C" {
[[gnu::weak,
  gnu::visibility(
      "default")]] extern const char* const tenon_loader_plugin_version;
const char* const tenon_loader_plugin_version = ::tenon::loader::kPluginVersion;
}
// NOLINTEND(misc-definitions-in-headers,readability-identifier-naming)

#endif  // TENON_LOADER_DATA_PLUGIN_VERSION_H_
