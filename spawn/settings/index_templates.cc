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

IndexTemplates::IndexTemplates(ProcessOptions& options)
    : options_(options),
      index_(options.index),
      name_(options.settings.name),
      stdout_file_(options.stdout_file),
      stderr_file_(options.stderr_file) {}

IndexTemplates::~IndexTemplates() {
  options_.index = index_;
  options_.settings.name = std::move(name_);
  options_.stdout_file = std::move(stdout_file_);
  options_.stderr_file = std::move(stderr_file_);
}

void IndexTemplates::FillIn(int index) const {
  const std::vector<std::pair<std::string, std::string>> words = {
      {"{index}", absl::StrCat(index)}};
  options_.index = index;
  options_.settings.name = absl::StrReplaceAll(name_, words);
  options_.stdout_file = absl::StrReplaceAll(stdout_file_, words);
  options_.stderr_file = absl::StrReplaceAll(stderr_file_, words);
}

}  // namespace tenon::spawn
