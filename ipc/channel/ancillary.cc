// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/ipc/channel/ancillary.h"

#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "tenon/shm/base/check.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {
namespace {

// Since Linux 6.5, and younger than some C libraries.
constexpr int kScmPidFd = 4;

bool IsRights(const cmsghdr& header) {
  return header.cmsg_level == SOL_SOCKET && header.cmsg_type == SCM_RIGHTS;
}

// A pidfd is a descriptor too, and leaks unless it is closed.
bool HasFds(const cmsghdr& header) {
  return IsRights(header) ||
         (header.cmsg_level == SOL_SOCKET && header.cmsg_type == kScmPidFd);
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

// Attaching: msg_controllen counts what has been appended.
void BeginControl(ControlBuffer* control, msghdr* message) {
  message->msg_control = control->bytes;
  message->msg_controllen = 0;
}

void Append(int type, const void* data, size_t size, msghdr* message) {
  char* const at =
      static_cast<char*>(message->msg_control) + message->msg_controllen;
  // Clears the padding after an odd number of descriptors, too.
  std::memset(at, 0, CMSG_SPACE(size));
  const cmsghdr header = {
      .cmsg_len = CMSG_LEN(size), .cmsg_level = SOL_SOCKET, .cmsg_type = type};
  std::memcpy(at, &header, sizeof(header));
  std::memcpy(at + CMSG_LEN(0), data, size);
  message->msg_controllen += CMSG_SPACE(size);
}

void AppendFds(absl::Span<const int> fds, msghdr* message) {
  TENON_CHECK(fds.size() <= kMaxFdsInMessage, "too many descriptors");
  if (fds.empty()) return;
  Append(SCM_RIGHTS, fds.data(), fds.size() * sizeof(int), message);
}

std::optional<ucred> CredentialsIn(cmsghdr* header) {
  if (header->cmsg_level != SOL_SOCKET ||
      header->cmsg_type != SCM_CREDENTIALS ||
      header->cmsg_len < CMSG_LEN(sizeof(ucred))) {
    return std::nullopt;
  }
  ucred credentials;
  std::memcpy(&credentials, CMSG_DATA(header), sizeof(credentials));
  return credentials;
}

}  // namespace

void AttachFds(absl::Span<const int> fds, ControlBuffer* control,
               msghdr* message) {
  BeginControl(control, message);
  AppendFds(fds, message);
  if (message->msg_controllen == 0) message->msg_control = nullptr;
}

void AttachFdsAndCredentials(absl::Span<const int> fds,
                             const ucred& credentials, ControlBuffer* control,
                             msghdr* message) {
  BeginControl(control, message);
  AppendFds(fds, message);
  Append(SCM_CREDENTIALS, &credentials, sizeof(credentials), message);
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
    if (IsRights(*header)) continue;
    const std::optional<ucred> credentials = CredentialsIn(header);
    if (credentials) ancillary.credentials = credentials;
    if (!credentials) ancillary.has_others = true;
  }
  return ancillary;
}

}  // namespace tenon
