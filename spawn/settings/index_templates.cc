// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/settings/index_templates.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

IndexTemplates::IndexTemplates(const ProcessOptions& options)
    : name_(options.settings.name),
      stdout_file_(options.stdout_file),
      stderr_file_(options.stderr_file) {}

void IndexTemplates::FillIn(ProcessOptions& options) const {
  const std::vector<std::pair<std::string, std::string>> index = {
      {"{index}", absl::StrCat(options.index)}};
  options.settings.name = absl::StrReplaceAll(name_, index);
  options.stdout_file = absl::StrReplaceAll(stdout_file_, index);
  options.stderr_file = absl::StrReplaceAll(stderr_file_, index);
}

}  // namespace tenon::spawn
