// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/peer.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tenon {

std::string PeerProcess::ToString() const {
  if (pid > 0) return absl::StrCat("process ", pid, " of user ", uid);
  return absl::StrCat("a process of user ", uid,
                      " that cannot be seen from this pid namespace");
}

}  // namespace tenon
