// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/ledger/column_testing.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tenon/shm/base/check.h"

namespace tenon {

TestColumn::TestColumn(const TestColumnOptions& options)
    : bytes_(options.bytes),
      id_(RandomId::New().value()),
      fd_(memfd_create("tenon.test_column", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  TENON_CHECK(fd_.valid(), "no memfd");
  TENON_CHECK(ftruncate(fd_.get(), static_cast<off_t>(bytes_)) == 0,
              "cannot set the size of a memfd");
  void* data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  TENON_CHECK(data != MAP_FAILED, "cannot map a memfd");
  data_ = static_cast<std::byte*>(data);
  ColumnHeader header = {};
  header.magic = options.magic;
  header.version = options.version;
  header.id = id_;
  header.pid = static_cast<uint64_t>(getpid());
  memcpy(header.name, options.name.data(),
         std::min(options.name.size(), sizeof(header.name)));
  memcpy(data_, &header, std::min(bytes_, sizeof(header)));
  TENON_CHECK(fcntl(fd_.get(), F_ADD_SEALS, options.seals) == 0,
              "cannot seal a memfd");
}

TestColumn::~TestColumn() { munmap(data_, bytes_); }

size_t TestColumn::BytesInUse() const {
  struct stat info;
  TENON_CHECK(fstat(fd_.get(), &info) == 0, "cannot stat a memfd");
  return static_cast<size_t>(info.st_blocks) * 512;
}

TestAttach::TestAttach(const RandomId& arena, uint64_t blocks,
                       const TestColumn* given)
    : column(given) {
  if (column == nullptr) column = &own_column.emplace();
  int ends[2];
  TENON_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0,
              "no pair of sockets");
  lease.Reset(ends[0]);
  owners_lease.Reset(ends[1]);
  process.emplace(PidFd::Open(getpid()).value());
  message.arena = arena;
  message.cells = blocks;
  fds = {owners_lease.get(), column->fd(), process->fd()};
}

bool TestAttach::Send(int socket) const {
  return SendPacket(
      socket, {reinterpret_cast<const char*>(&message), sizeof(message)}, fds);
}

void TestAttach::End() const {
  TENON_CHECK(shutdown(lease.get(), SHUT_WR) == 0, "no lease");
}

bool SendPacket(int socket, absl::string_view bytes,
                const std::vector<int>& fds) {
  iovec data = {const_cast<char*>(bytes.data()), bytes.size()};
  // As operator new aligns it.
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* c = CMSG_FIRSTHDR(&header);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
  }
  return sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

ReceivedPacket ReceivePacket(int socket) {
  char text[1024];
  iovec data = {text, sizeof(text)};
  alignas(cmsghdr) char control[CMSG_SPACE(8 * sizeof(int))];
  msghdr header = {};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  TENON_CHECK(size >= 0, "no packet");
  ReceivedPacket packet = {std::string(text, static_cast<size_t>(size)), {}};
  const cmsghdr* c = CMSG_FIRSTHDR(&header);
  if (c == nullptr) return packet;
  for (size_t at = CMSG_LEN(0); at < c->cmsg_len; at += sizeof(int)) {
    int fd;
    memcpy(&fd, reinterpret_cast<const char*>(c) + at, sizeof(fd));
    packet.fds.emplace_back(fd);
  }
  return packet;
}

UniqueFd ReopenReadOnly(int fd) {
  return UniqueFd(
      open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace tenon
