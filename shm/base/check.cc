// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/base/check.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <string_view>

namespace tenon {

void Abort(std::string_view text, const char* file, int line) {
  const char* const error = strerrorname_np(errno);
  char number[16];
  const char* const end =
      std::to_chars(number, number + sizeof(number), line).ptr;
  const std::string_view parts[] = {file,
                                    ":",
                                    {number, static_cast<size_t>(end - number)},
                                    ": Check failed: ",
                                    text,
                                    " (last errno: ",
                                    error != nullptr ? error : "unknown",
                                    ")\n"};
  iovec pieces[std::size(parts)];
  for (size_t i = 0; i < std::size(parts); ++i) {
    pieces[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
  }
  // One call, so that lines of several processes do not mix.
  [[maybe_unused]] const ssize_t written =
      writev(STDERR_FILENO, pieces, std::size(pieces));
  std::abort();
}

}  // namespace tenon
