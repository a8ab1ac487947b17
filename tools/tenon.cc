// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// tenon: shows the processes and memory of Tenon on this machine.
//
//   bazel run //tools:tenon -- doctor

#include <sys/resource.h>

#include <iostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tenon/shm_manager/log_flags.h"
#include "tenon/tools/tenon_tool.h"

namespace {

// A query opens each table and column that it finds: so it raises the limit,
// except for the doctor, which must report the limit as it is.
void RaiseFileLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const absl::Status log = tenon::InitLog(argv[0], &words);
  if (!log.ok()) {
    std::cerr << "tenon: " << log.message() << "\nsee: tenon help\n";
    return 2;
  }
  if (!words.empty() && words[0] != "doctor") RaiseFileLimit();
  const int code = tenon::tools::RunTenonTool(words, std::cout, std::cerr);
  std::cout.flush();
  if (code != 0 || std::cout) return code;
  std::cerr << "tenon: stdout cannot be written: the output is incomplete\n";
  return 1;
}
