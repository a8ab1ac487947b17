// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The program of a loader's workers whose dataset is in a shared library
// (LoaderOptions::worker_program): for consumers that must not be executed
// again. Loaders start it; it has no options.

#include <cstdio>

#include "tenon/loader/data/plugin_version.h"
#include "tenon/spawn/child/init.h"

int main(int argc, char** argv) {
  tenon::spawn::Init(argc, argv);  // A worker does not return from it.
  std::fprintf(
      stderr,
      "%s runs the workers of a tenon::loader::Loader, which starts it "
      "(LoaderOptions::worker_program). Version for plugins: %s\n",
      argc > 0 ? argv[0] : "tenon_loader_worker",
      tenon::loader::kPluginVersion);
  return 2;
}
