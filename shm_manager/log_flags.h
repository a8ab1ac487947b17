// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Begins glog in a program, with the flags that its users know. Quiet: without
// flags and variables of glog, problems are logged, to stderr. For programs;
// libraries do not log.
//
//   absl::Status status = InitLog(argv[0], &words);  // Takes its flags out.
//
//   --v=1            what the program does; implies --minloglevel=0
//   --minloglevel=0  also events, beside problems
//   --log_dir=DIR    into files there instead of stderr
//
// and --logtostderr, --alsologtostderr, --colorlogtostderr, --stderrthreshold,
// --vmodule, --max_log_size, --logbufsecs. GLOG_v and so on are the same.

#ifndef TENON_SHM_MANAGER_LOG_FLAGS_H_
#define TENON_SHM_MANAGER_LOG_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tenon {

// To be called once. `program` must outlive the process. Words after "--" are
// not looked at. Errors: kInvalidArgument for a value that glog rejects.
absl::Status InitLog(const char* program, std::vector<std::string>* words);

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_LOG_FLAGS_H_
