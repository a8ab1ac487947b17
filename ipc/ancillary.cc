// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/ancillary.h"

#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/base/internal/raw_logging.h"
#include "absl/types/span.h"
#include "tenon/shm/unique_fd.h"

namespace tenon {
namespace {

// Since Linux 6.5, and younger than some C libraries.
constexpr int kScmPidFd = 4;

// A pidfd is a descriptor too, and leaks if nobody closes it.
bool HasFds(const cmsghdr& header) {
  return header.cmsg_level == SOL_SOCKET &&
         (header.cmsg_type == SCM_RIGHTS || header.cmsg_type == kScmPidFd);
}

void TakeFds(cmsghdr* header, std::vector<UniqueFd>* fds) {
  const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  fds->reserve(fds->size() + count);
  for (size_t i = 0; i < count; ++i) {
    int fd;
    std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
    fds->emplace_back(fd);
  }
}

}  // namespace

void AttachFds(absl::Span<const int> fds, ControlBuffer* control,
               msghdr* message) {
  ABSL_RAW_CHECK(fds.size() <= kMaxFdsInMessage, "too many descriptors");
  message->msg_control = nullptr;
  message->msg_controllen = 0;
  if (fds.empty()) return;
  const size_t fd_bytes = fds.size() * sizeof(int);
  // All of it: behind an odd number of descriptors there is padding.
  std::memset(control->bytes, 0, CMSG_SPACE(fd_bytes));
  message->msg_control = control->bytes;
  message->msg_controllen = CMSG_SPACE(fd_bytes);
  cmsghdr* header = CMSG_FIRSTHDR(message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fd_bytes);
  std::memcpy(CMSG_DATA(header), fds.data(), fd_bytes);
}

void AttachRoom(ControlBuffer* control, msghdr* message) {
  message->msg_control = control->bytes;
  message->msg_controllen = sizeof(control->bytes);
}

Ancillary TakeAncillary(msghdr* message) {
  Ancillary ancillary;
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr;
       header = CMSG_NXTHDR(message, header)) {
    if (HasFds(*header)) TakeFds(header, &ancillary.fds);
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      ancillary.has_others = true;
    }
  }
  return ancillary;
}

}  // namespace tenon
