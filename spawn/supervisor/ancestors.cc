// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/supervisor/ancestors.h"

#include <utility>
#include <vector>

#include "tenon/shm/process/pid_fd.h"

namespace tenon::spawn {
namespace {

// Descriptor numbers, not owners: under fork() a child has closed its parent's.
std::vector<int>& TheAncestors() {
  static std::vector<int>& ancestors = *new std::vector<int>;
  return ancestors;
}

}  // namespace

void SetAncestors(std::vector<PidFd> ancestors) {
  static std::vector<PidFd>& kept = *new std::vector<PidFd>;
  TheAncestors().clear();
  for (PidFd& ancestor : ancestors) {
    TheAncestors().push_back(ancestor.fd());
    kept.push_back(std::move(ancestor));
  }
}

std::vector<int> Ancestors() { return TheAncestors(); }

}  // namespace tenon::spawn
