// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm_manager/log_flags.h"

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "glog/logging.h"

namespace tenon {
namespace {

constexpr absl::string_view kSwitches[] = {"logtostderr", "alsologtostderr",
                                           "colorlogtostderr"};
constexpr absl::string_view kValues[] = {
    "v",       "vmodule",      "minloglevel", "stderrthreshold",
    "log_dir", "max_log_size", "logbufsecs"};

template <typename Names>
bool Has(const Names& names, absl::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// A flag of glog: its name, and its value if that is in the same word.
struct Flag {
  std::string name;
  std::string value;
  bool needs_value = false;
};

// No name if it is another word.
Flag Parse(absl::string_view word) {
  if (!absl::ConsumePrefix(&word, "-")) return {};
  absl::ConsumePrefix(&word, "-");
  const size_t end = word.find('=');
  const absl::string_view name = word.substr(0, end);
  const bool has_value = end != absl::string_view::npos;
  if (Has(kValues, name)) {
    return {.name = std::string(name),
            .value = std::string(has_value ? word.substr(end + 1) : ""),
            .needs_value = !has_value};
  }
  if (Has(kSwitches, name)) {
    return {.name = std::string(name),
            .value = has_value ? std::string(word.substr(end + 1)) : "true"};
  }
  absl::string_view negated = name;
  if (!has_value && absl::ConsumePrefix(&negated, "no") &&
      Has(kSwitches, negated)) {
    return {.name = std::string(negated), .value = "false"};
  }
  return {};
}

bool IsSet(const char* variable) { return getenv(variable) != nullptr; }

void SetDefaults(const std::set<std::string>& given) {
  const bool to_files = given.contains("log_dir") || IsSet("GLOG_log_dir");
  if (!given.contains("logtostderr") && !IsSet("GLOG_logtostderr")) {
    FLAGS_logtostderr = !to_files;
  }
  if (!given.contains("minloglevel") && !IsSet("GLOG_minloglevel")) {
    // Verbose lines are events.
    const bool is_verbose = FLAGS_v > 0 || !FLAGS_vmodule.empty();
    FLAGS_minloglevel = is_verbose ? google::GLOG_INFO : google::GLOG_WARNING;
  }
}

}  // namespace

absl::Status InitLog(const char* program, std::vector<std::string>* words) {
  std::set<std::string> given;
  std::vector<std::string> others;
  auto word = words->begin();
  for (; word != words->end() && *word != "--"; ++word) {
    Flag flag = Parse(*word);
    if (flag.name.empty()) {
      others.push_back(std::move(*word));
      continue;
    }
    if (flag.needs_value) {
      if (word + 1 == words->end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", flag.name, " needs a value"));
      }
      flag.value = *++word;
    }
    if (gflags::SetCommandLineOption(flag.name.c_str(), flag.value.c_str())
            .empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag.name, " cannot be '", flag.value, "'"));
    }
    given.insert(flag.name);
  }
  others.insert(others.end(), std::make_move_iterator(word),
                std::make_move_iterator(words->end()));
  *words = std::move(others);
  SetDefaults(given);
  google::InitGoogleLogging(program);
  return absl::OkStatus();
}

}  // namespace tenon
