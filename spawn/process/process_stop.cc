// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/process/process_stop.h"

#include <sys/types.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/read_file.h"

namespace tenon::spawn {

std::string DescribeStop(pid_t pid) {
  const std::string stat =
      ReadFile(absl::StrCat("/proc/", pid, "/stat")).value_or("");
  // The name of the program is in brackets, and may contain brackets itself.
  const size_t name_end = stat.rfind(')');
  char state = 0;
  int group = 0;
  int terminal = 0;
  int foreground = 0;
  if (name_end == std::string::npos ||
      std::sscanf(stat.c_str() + name_end, ") %c %*d %d %*d %d %d", &state,
                  &group, &terminal, &foreground) != 4 ||
      state != 'T') {
    return "";
  }
  if (terminal == 0 || group == foreground) {
    return ": it is stopped (SIGSTOP or SIGTSTP)";
  }
  return ": it is stopped in the background of its terminal (SIGTTIN: it reads "
         "from the terminal; SIGTTOU: it writes there under `stty tostop`; or "
         "SIGSTOP)";
}

}  // namespace tenon::spawn
