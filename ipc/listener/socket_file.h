// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// SocketFile: the file of a socket that listens at a path, in a directory
// private to this user.

#ifndef TENON_IPC_LISTENER_SOCKET_FILE_H_
#define TENON_IPC_LISTENER_SOCKET_FILE_H_

#include <sys/types.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// Ownership: owns a descriptor of the directory, not the file: see Remove().
// Threads: thread-compatible.
class SocketFile {
 public:
  // Binds `socket`, of SOCK_SEQPACKET or SOCK_STREAM, to `path` and listens.
  // Replaces a file without a listener, under a lock of the directory: without
  // it, the second of two replacing processes would replace the first one's new
  // file. Errors: those of Listener::CreateAtPath().
  static absl::StatusOr<SocketFile> Listen(int socket, const std::string& path);

  SocketFile() = default;
  SocketFile(SocketFile&&) = default;
  SocketFile& operator=(SocketFile&&) = default;

  // Removes the file, unless it has been replaced.
  void Remove();

 private:
  SocketFile(UniqueFd directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}

  UniqueFd directory_;
  std::string name_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_LISTENER_SOCKET_FILE_H_
