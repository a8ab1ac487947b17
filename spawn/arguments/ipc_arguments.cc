// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/spawn/arguments/ipc_arguments.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/arguments/argument.h"

namespace tenon::spawn {

absl::Status ArgumentTraits<Channel>::Pack(const Channel& channel,
                                           ArgumentWriter& to) {
  to.SetExclusive("a Channel");
  return to.PutFd(channel.fd());
}

absl::StatusOr<Channel> ArgumentTraits<Channel>::Unpack(ArgumentReader& from) {
  TENON_ASSIGN_OR_RETURN(UniqueFd fd, from.TakeFd());
  return Channel::Adopt(std::move(fd));
}

}  // namespace tenon::spawn
