// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WorkerProgram: a program other than the consumer's, in which a loader's
// workers run. A value; see LoaderOptions::worker_program.
//
//   // In a process that must not be executed again, such as a Python trainer.
//   auto loader = Loader::Create(
//       "Photos",
//       {.workers = 4,
//        .worker_program = WorkerProgram{.program = "/opt/tenon_loader_worker",
//                                        .plugin = "/opt/libphotos.so"}},
//       folder, 224);

#ifndef TENON_LOADER_DATA_WORKER_PROGRAM_H_
#define TENON_LOADER_DATA_WORKER_PROGRAM_H_

#include <string>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon::loader {

// Program and plugin must be built with the consumer's version of Tenon
// (kPluginVersion), which is checked.
struct WorkerProgram {
  // The path of //loader:tenon_loader_worker, or of another program that calls
  // spawn::Init() at the top of main and links //loader.
  std::string program;
  // A shared library in which TENON_LOADER_DATASET registers the dataset, as
  // dlopen() takes it: a path, or a name without a slash, which is searched
  // for. The worker program loads it; this process does not. Empty: the dataset
  // is registered in the program.
  std::string plugin;
};

}  // namespace tenon::loader

#endif  // TENON_LOADER_DATA_WORKER_PROGRAM_H_
