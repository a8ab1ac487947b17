// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// IndexTemplates: options in which "{index}" is replaced for each of several
// children. Not for users.

#ifndef TENON_SPAWN_SETTINGS_INDEX_TEMPLATES_H_
#define TENON_SPAWN_SETTINGS_INDEX_TEMPLATES_H_

#include <string>

#include "tenon/spawn/settings/process_options.h"

namespace tenon::spawn {

// Options of several children with a placeholder "{index}": settings.name,
// stdout_file and stderr_file.
// Ownership: borrows the options; the destructor restores their templates and
//   their index.
class IndexTemplates {
 public:
  explicit IndexTemplates(ProcessOptions& options);
  ~IndexTemplates();
  IndexTemplates(const IndexTemplates&) = delete;
  IndexTemplates& operator=(const IndexTemplates&) = delete;

  // Makes them the options of child `index`.
  void FillIn(int index) const;

 private:
  ProcessOptions& options_;
  int index_;
  std::string name_;
  std::string stdout_file_;
  std::string stderr_file_;
};

}  // namespace tenon::spawn

#endif  // TENON_SPAWN_SETTINGS_INDEX_TEMPLATES_H_
