// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LoadPlugin: loads a shared library of datasets into a worker program.

#ifndef TENON_LOADER_WORKER_LOAD_PLUGIN_H_
#define TENON_LOADER_WORKER_LOAD_PLUGIN_H_

#include <string>

#include "absl/status/status.h"

namespace tenon::loader {

// Afterwards its datasets are registered, for good. `path` is as dlopen() takes
// it; empty: does nothing.
// Trust: the library's code runs. A static initializer of it that throws ends
// the process (std::terminate()), or LoadPlugin() throws.
// Errors: kFailedPrecondition with the text of dlopen(), for a library without
// datasets, and for one that was built with another version of Tenon.
absl::Status LoadPlugin(const std::string& path);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_LOAD_PLUGIN_H_
