// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/tools/live/screen.h"

#include <ncurses.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon::tools {
namespace {

// The terminal, taken over as long as this lives.
class Screen {
 public:
  static absl::StatusOr<Screen> Open() {
    const char* const kind = getenv("TERM");
    if (isatty(STDOUT_FILENO) == 0 || isatty(STDIN_FILENO) == 0) {
      return absl::FailedPreconditionError("stdin or stdout is no terminal");
    }
    SCREEN* const screen = newterm(nullptr, stdout, stdin);
    if (screen == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("terminfo does not know the terminal '",
                       kind == nullptr ? "" : kind, "' ($TERM)"));
    }
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    return Screen(screen);
  }
  ~Screen() {
    if (screen_ == nullptr) return;
    endwin();
    delscreen(screen_);
  }
  Screen(Screen&& other) noexcept : screen_(other.screen_) {
    other.screen_ = nullptr;
  }
  Screen& operator=(Screen&&) = delete;

  // From line `first` on.
  void Draw(const std::vector<std::string>& lines, int first) {
    erase();
    for (int row = 0; row < LINES && first + row < std::ssize(lines); ++row) {
      const std::string& line = lines[static_cast<size_t>(first + row)];
      const bool is_title = !line.empty() && line[0] != ' ';
      if (is_title) attron(A_BOLD);
      mvaddnstr(row, 0, line.c_str(), COLS);
      if (is_title) attroff(A_BOLD);
    }
    refresh();
  }
  // ERR if none comes in time.
  int Key(absl::Duration patience) {
    timeout(static_cast<int>(
        std::max<int64_t>(absl::ToInt64Milliseconds(patience), 0)));
    return getch();
  }
  // False once the other side has closed it; Key() then returns at once.
  static bool is_connected() {
    pollfd terminal = {.fd = STDIN_FILENO, .events = 0, .revents = 0};
    return poll(&terminal, 1, 0) == 0;
  }
  static int rows() { return LINES; }

 private:
  explicit Screen(SCREEN* screen) : screen_(screen) {}

  SCREEN* screen_;
};

}  // namespace

absl::Status ShowOnScreen(
    const std::function<absl::StatusOr<std::string>()>& text,
    absl::Duration pause) {
  TENON_ASSIGN_OR_RETURN(Screen screen, Screen::Open());
  int first = 0;
  for (;;) {
    TENON_ASSIGN_OR_RETURN(const std::string shown, text());
    const std::vector<std::string> lines = absl::StrSplit(shown, '\n');
    const absl::Time until = absl::Now() + pause;
    for (;;) {
      first = std::clamp(
          first, 0,
          std::max(0, static_cast<int>(lines.size()) - Screen::rows()));
      screen.Draw(lines, first);
      const int key = screen.Key(until - absl::Now());
      if (key == 'q') return absl::OkStatus();
      if (key == KEY_DOWN) ++first;
      if (key == KEY_UP) --first;
      if (key == KEY_NPAGE) first += Screen::rows();
      if (key == KEY_PPAGE) first -= Screen::rows();
      if (key != ERR) continue;
      if (Screen::is_connected()) break;
      return absl::UnavailableError("the terminal was closed");
    }
  }
}

}  // namespace tenon::tools
