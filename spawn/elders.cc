// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/elders.h"

#include <utility>
#include <vector>

#include "tenon/shm/pid_fd.h"

namespace tenon::spawn {
namespace {

// Numbers, not owners: under fork() a child has closed its parent's.
std::vector<int>& TheElders() {
  static std::vector<int>& elders = *new std::vector<int>;
  return elders;
}

}  // namespace

void SetElders(std::vector<PidFd> elders) {
  static std::vector<PidFd>& kept = *new std::vector<PidFd>;
  TheElders().clear();
  for (PidFd& elder : elders) {
    TheElders().push_back(elder.fd());
    kept.push_back(std::move(elder));
  }
}

std::vector<int> Elders() { return TheElders(); }

}  // namespace tenon::spawn
