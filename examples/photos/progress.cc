// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/retry_on_eintr.h"

namespace tenon {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kRedrawInterval(100);
constexpr seconds kMinLineInterval(1);
constexpr seconds kMaxLineInterval(30);
constexpr size_t kUnknownColumns = 80;
constexpr size_t kMinBar = 12;  // With its brackets.
constexpr size_t kMaxBar = 42;
constexpr absl::string_view kGap = "  ";
constexpr double kLongestClock = 99 * 3600 + 59 * 60 + 59;  // 99:59:59

// The contents of a line.
struct State {
  absl::string_view label;
  int64_t images;
  int64_t total_images;  // 0 if not known.
  int64_t bytes;
  double seconds;
  bool is_final;
};

// A piece of a line. If space is short the highest rank is dropped first.
struct Part {
  std::string text;
  int rank;
};

double ShareDone(const State& state) {
  if (state.total_images <= 0) return 0;
  const double share = static_cast<double>(state.images) /
                       static_cast<double>(state.total_images);
  return std::clamp(share, 0.0, 1.0);
}

double Rate(int64_t amount, double duration) {
  return duration > 0 ? static_cast<double>(amount) / duration : 0;
}

// "1:02:03", or "2:03" below an hour.
std::string Clock(double duration) {
  const auto all = static_cast<int>(std::clamp(duration, 0.0, kLongestClock));
  const int hours = all / 3600;
  const int minutes = all / 60 % 60;
  if (hours == 0) return absl::StrFormat("%d:%02d", minutes, all % 60);
  return absl::StrFormat("%d:%02d:%02d", hours, minutes, all % 60);
}

std::string FinalWords(const State& state) {
  return absl::StrCat(state.images, " images in ",
                      state.seconds < 60
                          ? absl::StrFormat("%.1f s", state.seconds)
                          : Clock(state.seconds));
}

std::string EtaWords(const State& state) {
  if (state.images <= 0) return "ETA -:--";
  const int64_t rest = std::max<int64_t>(state.total_images - state.images, 0);
  const double rest_per_done =
      static_cast<double>(rest) / static_cast<double>(state.images);
  return absl::StrCat("ETA ", Clock(state.seconds * rest_per_done));
}

// In their order in the line.
std::vector<Part> Parts(const State& state) {
  const bool has_total = state.total_images > 0;
  std::vector<Part> parts;
  if (!state.label.empty()) parts.push_back({std::string(state.label), 3});
  if (has_total) {
    const auto percent = static_cast<int>(100 * ShareDone(state));
    parts.push_back({absl::StrFormat("%3d%%", percent), 0});
  } else if (!state.is_final) {
    parts.push_back({absl::StrCat(state.images, " images"), 0});
  }
  parts.push_back(
      {absl::StrFormat("%.1f images/s", Rate(state.images, state.seconds)), 1});
  parts.push_back(
      {absl::StrFormat("%.1f MB/s", Rate(state.bytes, state.seconds) / 1e6),
       4});
  if (state.is_final) {
    parts.push_back({FinalWords(state), 2});
  } else if (has_total) {
    parts.push_back({EtaWords(state), 2});
  }
  return parts;
}

std::string Join(const std::vector<Part>& parts) {
  std::string line;
  for (const Part& part : parts) {
    absl::StrAppend(&line, line.empty() ? "" : kGap, part.text);
  }
  return line;
}

std::string Bar(double share, size_t width) {
  const size_t inside = width - 2;
  const auto full = static_cast<size_t>(share * static_cast<double>(inside));
  return absl::StrCat("[", std::string(full, '#'),
                      std::string(inside - full, '.'), "]");
}

// The line for a terminal, exactly `width` characters.
std::string Fit(const State& state, size_t width) {
  std::vector<Part> parts = Parts(state);
  const auto by_rank = [](const Part& a, const Part& b) {
    return a.rank < b.rank;
  };
  while (parts.size() > 1 && Join(parts).size() > width) {
    parts.erase(std::max_element(parts.begin(), parts.end(), by_rank));
  }
  const size_t used = Join(parts).size() + kGap.size();
  if (state.total_images > 0 && used + kMinBar <= width) {
    const ptrdiff_t place = state.label.empty() || parts.size() == 1 ? 0 : 1;
    parts.insert(parts.begin() + place,
                 {Bar(ShareDone(state), std::min(width - used, kMaxBar)), 0});
  }
  std::string line = Join(parts);
  line.resize(width, ' ');  // Overwrites the previous line.
  return line;
}

// For a line that does not reach the last column, where terminals may wrap.
size_t UsableColumns(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kUnknownColumns - 1;
  }
  return size.ws_col - 1;
}

double SecondsBetween(std::chrono::steady_clock::time_point from,
                      std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

ProgressBar::ProgressBar(const ProgressOptions& options)
    : options_(options),
      is_terminal_(isatty(options.fd) == 1),
      start_(options_.now()),
      written_at_(start_) {}

ProgressBar::~ProgressBar() {
  if (in_line_ && !is_over_) Write("\n");
}

void ProgressBar::Add(int64_t images, int64_t bytes) {
  images_ += images;
  bytes_ += bytes;
  if (is_over_) return;
  const TimePoint now = options_.now();
  if (IsLineDue(now)) WriteState(now, /*is_final=*/false);
}

void ProgressBar::Finish() {
  if (is_over_) return;
  WriteState(options_.now(), /*is_final=*/true);
  is_over_ = true;
}

int64_t ProgressBar::tenths_done() const {
  return options_.total_images > 0 ? images_ * 10 / options_.total_images : 0;
}

bool ProgressBar::IsLineDue(TimePoint now) const {
  const auto since = now - written_at_;
  if (is_terminal_) return !in_line_ || since >= kRedrawInterval;
  if (tenths_done() > written_tenths_) return since >= kMinLineInterval;
  return since >= kMaxLineInterval;
}

void ProgressBar::WriteState(TimePoint now, bool is_final) {
  const State state = {.label = options_.label,
                       .images = images_,
                       .total_images = options_.total_images,
                       .bytes = bytes_,
                       .seconds = SecondsBetween(start_, now),
                       .is_final = is_final};
  written_at_ = now;
  written_tenths_ = tenths_done();
  if (!is_terminal_) {
    Write(absl::StrCat(Join(Parts(state)), "\n"));
    return;
  }
  in_line_ = true;
  Write(absl::StrCat("\r", Fit(state, UsableColumns(options_.fd)),
                     is_final ? "\n" : ""));
}

void ProgressBar::Write(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = RetryOnEintr(
        [&] { return write(options_.fd, text.data(), text.size()); });
    if (written <= 0) {
      is_over_ = true;
      return;
    }
    text.remove_prefix(written);
  }
}

}  // namespace tenon
