// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/load_plugin.h"

#include <dlfcn.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/loader/data/plugin_version.h"

namespace tenon::loader {
namespace {

absl::Status Refused(const std::string& path, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat("cannot load plugin '", path, "': ", why));
}

}  // namespace

absl::Status LoadPlugin(const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return Refused(path, absl::StrCat(dlerror()));
  const auto* const version = static_cast<const char* const*>(
      dlsym(library, "tenon_loader_plugin_version"));
  if (version == nullptr) {
    return Refused(path,
                   "there is no TENON_LOADER_DATASET in it, or it hides "
                   "tenon_loader_plugin_version");
  }
  if (absl::string_view(*version) == kPluginVersion) return absl::OkStatus();
  return Refused(path, absl::StrCat("it was built with version ", *version,
                                    " of Tenon, the worker program with ",
                                    kPluginVersion));
}

}  // namespace tenon::loader
