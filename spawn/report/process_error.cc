// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/report/process_error.h"

#include <string.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tenon::spawn {
namespace {

// A payload is a line of text, because Status::ToString() prints it:
//
//   index=3 pid=4711 exit_code=-1 signal=9 ... signal_name={SIGKILL}
//   stack=message[812:9e3779b97f4a7c15] stderr_tail={}
//
// All fields, in one order. A long text that the status's message has, too, is
// not printed a second time: the payload has its length and its hash, by which
// it is found in the message even where a layer has added text around it.

constexpr char kRaisedUrl[] = "tenon/spawn.ProcessRaised";
constexpr char kExitedUrl[] = "tenon/spawn.ProcessExited";

constexpr size_t kMostRepeated = 24;

// A polynomial, so that Find() can move a window over a text.
constexpr uint64_t kBase = 0x100000001b3;

uint64_t Next(uint64_t hash, char c) {
  return hash * kBase + static_cast<unsigned char>(c);
}

uint64_t HashOf(absl::string_view text) {
  uint64_t hash = 0;
  for (const char c : text) hash = Next(hash, c);
  return hash;
}

// The first part of `text` that has this length and this hash.
std::optional<absl::string_view> Find(absl::string_view text, size_t length,
                                      uint64_t hash) {
  if (length == 0 || length > text.size()) return std::nullopt;
  uint64_t weight = 1;  // Of the character that leaves the window.
  for (size_t i = 0; i < length; ++i) weight *= kBase;
  uint64_t window = HashOf(text.substr(0, length));
  for (size_t at = 0;; ++at) {
    if (window == hash) return text.substr(at, length);
    if (at + length == text.size()) return std::nullopt;
    window = Next(window, text[at + length]) -
             weight * static_cast<unsigned char>(text[at]);
  }
}

class PayloadWriter {
 public:
  // Of a status with this message.
  explicit PayloadWriter(absl::string_view message) : message_(message) {}

  void Put(absl::string_view key, int64_t value) {
    absl::StrAppend(&text_, Space(), key, "=", value);
  }
  void Put(absl::string_view key, absl::string_view value) {
    absl::StrAppend(&text_, Space(), key, "=");
    if (value.size() > kMostRepeated &&
        message_.find(value) != absl::string_view::npos) {
      absl::StrAppend(&text_, "message[", value.size(), ":",
                      absl::Hex(HashOf(value)), "]");
    } else {
      absl::StrAppend(
          &text_, "{",
          absl::StrReplaceAll(absl::CEscape(value), {{"}", "\\175"}}), "}");
    }
  }

  std::string text() && { return std::move(text_); }

 private:
  const char* Space() const { return text_.empty() ? "" : " "; }

  const absl::string_view message_;
  std::string text_;
};

// Reads what PayloadWriter has written; at_end() is false after anything else.
class PayloadReader {
 public:
  PayloadReader(absl::string_view text, absl::string_view message)
      : text_(text), message_(message) {}

  template <typename Int>
  void Get(absl::string_view key, Int& value) {
    int64_t number = 0;
    good_ = good_ && Consume(key) && absl::SimpleAtoi(Until(" "), &number) &&
            static_cast<Int>(number) == number;
    value = static_cast<Int>(number);
  }
  void Get(absl::string_view key, std::string& value) {
    good_ = good_ && Consume(key);
    if (!good_) return;
    if (absl::ConsumePrefix(&text_, "message[")) {
      size_t length = 0;
      uint64_t hash = 0;
      good_ = absl::SimpleAtoi(Until(":"), &length) &&
              absl::SimpleHexAtoi(Until("]"), &hash);
      const auto found = Find(message_, length, hash);
      misses_text_ = misses_text_ || !found;
      value = std::string(found.value_or(absl::string_view()));
    } else {
      good_ = absl::ConsumePrefix(&text_, "{") &&
              absl::CUnescape(Until("}"), &value);
    }
  }

  bool at_end() const { return good_ && text_.empty(); }
  // Whether the message has no longer a text that it had: the field is empty.
  bool misses_text() const { return misses_text_; }

 private:
  bool Consume(absl::string_view key) {
    if (!is_first_ && !absl::ConsumePrefix(&text_, " ")) return false;
    is_first_ = false;
    return absl::ConsumePrefix(&text_, key) && absl::ConsumePrefix(&text_, "=");
  }
  // Up to `end`, which is skipped, except a space; all if there is none.
  absl::string_view Until(absl::string_view end) {
    const size_t at = text_.find(end);
    if (at == absl::string_view::npos) {
      good_ = good_ && end == " ";
      return std::exchange(text_, absl::string_view());
    }
    const absl::string_view value = text_.substr(0, at);
    text_.remove_prefix(at + (end == " " ? 0 : end.size()));
    return value;
  }

  absl::string_view text_;
  const absl::string_view message_;
  bool is_first_ = true;
  bool good_ = true;
  bool misses_text_ = false;
};

std::string Write(const ProcessRaised& error, absl::string_view message) {
  PayloadWriter writer(message);
  writer.Put("index", error.index);
  writer.Put("pid", error.pid);
  writer.Put("code", static_cast<int>(error.status.code()));
  writer.Put("message", error.status.message());
  writer.Put("stack", error.stack);
  return std::move(writer).text();
}

bool Read(PayloadReader& reader, ProcessRaised& error) {
  int code = 0;
  std::string message;
  reader.Get("index", error.index);
  reader.Get("pid", error.pid);
  reader.Get("code", code);
  reader.Get("message", message);
  reader.Get("stack", error.stack);
  if (!reader.at_end() || code < 0 ||
      code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return false;
  }
  error.status = absl::Status(static_cast<absl::StatusCode>(code), message);
  return true;
}

std::string Write(const ProcessExited& error, absl::string_view message) {
  PayloadWriter writer(message);
  writer.Put("index", error.index);
  writer.Put("pid", error.pid);
  writer.Put("exit_code", error.exit_code);
  writer.Put("signal", error.signal);
  writer.Put("killed_for_memory", error.killed_for_memory ? 1 : 0);
  writer.Put("peak_rss_bytes", error.peak_rss_bytes);
  writer.Put("signal_name", error.signal_name);
  writer.Put("stack", error.stack);
  writer.Put("stderr_tail", error.stderr_tail);
  return std::move(writer).text();
}

bool Read(PayloadReader& reader, ProcessExited& error) {
  reader.Get("index", error.index);
  reader.Get("pid", error.pid);
  reader.Get("exit_code", error.exit_code);
  reader.Get("signal", error.signal);
  reader.Get("killed_for_memory", error.killed_for_memory);
  reader.Get("peak_rss_bytes", error.peak_rss_bytes);
  reader.Get("signal_name", error.signal_name);
  reader.Get("stack", error.stack);
  reader.Get("stderr_tail", error.stderr_tail);
  return reader.at_end();
}

void SetPayload(const char* url, const char* other, const std::string& payload,
                absl::Status& status) {
  status.ErasePayload(other);
  status.SetPayload(url, absl::Cord(payload));
}

template <typename Error>
std::optional<Error> Get(const absl::Status& status, const char* url) {
  const auto payload = status.GetPayload(url);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  PayloadReader reader(text, status.message());
  Error error;
  if (!Read(reader, error)) return std::nullopt;
  // Another spelling of the same values is not Write()'s.
  if (!reader.misses_text() && Write(error, status.message()) != text) {
    return std::nullopt;
  }
  return error;
}

}  // namespace

void SetProcessError(const ProcessRaised& error, absl::Status& status) {
  SetPayload(kRaisedUrl, kExitedUrl, Write(error, status.message()), status);
}

void SetProcessError(const ProcessExited& error, absl::Status& status) {
  SetPayload(kExitedUrl, kRaisedUrl, Write(error, status.message()), status);
}

std::optional<ProcessRaised> GetProcessRaised(const absl::Status& status) {
  return Get<ProcessRaised>(status, kRaisedUrl);
}

std::optional<ProcessExited> GetProcessExited(const absl::Status& status) {
  return Get<ProcessExited>(status, kExitedUrl);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name)
                         : absl::StrCat("signal ", signal);
}

}  // namespace tenon::spawn
