// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// For tests of the daemon's listener for torch: a connection on which a test
// says what it likes, and files as torch makes them.

#ifndef TENON_SHM_MANAGER_TORCH_TESTING_H_
#define TENON_SHM_MANAGER_TORCH_TESTING_H_

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/testing/process_testing.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_testing.h"
#include "tenon/shm_manager/torch_message.h"

namespace tenon {

inline std::string TorchPath(const ManagerFolder& folder) {
  return absl::StrCat(folder.folder(), "/torch");
}

inline ManagerOptions WithTorch(const ManagerFolder& folder,
                                ManagerOptions options = {}) {
  options.torch_path = TorchPath(folder);
  return options;
}

// Removes the socket that a killed daemon has left. Before its ManagerFolder.
class TorchSocketGuard {
 public:
  explicit TorchSocketGuard(const ManagerFolder& folder)
      : path_(TorchPath(folder)) {}
  ~TorchSocketGuard() { unlink(path_.c_str()); }
  TorchSocketGuard(const TorchSocketGuard&) = delete;
  TorchSocketGuard& operator=(const TorchSocketGuard&) = delete;

 private:
  const std::string path_;
};

// A connection as torch makes it; invalid if no daemon listens.
class TorchConnection {
 public:
  explicit TorchConnection(const std::string& path)
      : socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path.size(), sizeof(address.sun_path));
    path.copy(address.sun_path, path.size());
    if (connect(socket_.get(), reinterpret_cast<sockaddr*>(&address),
                sizeof(address)) != 0) {
      socket_.Reset();
    }
  }

  bool valid() const { return socket_.valid(); }
  int fd() const { return socket_.get(); }

  bool Send(absl::string_view bytes) const {
    return send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  // Two bytes; empty if the daemon has hung up.
  std::string Answer() const {
    char answer[2];
    return recv(socket_.get(), answer, 2, MSG_WAITALL) == 2
               ? std::string(answer, 2)
               : std::string();
  }

  std::string Register(const std::string& name) const {
    if (!Send(EncodeTorchMessage({.pid = getpid(), .name = name}))) return "";
    return Answer();
  }
  void Deregister(const std::string& name) const {
    Send(EncodeTorchMessage({.pid = getpid(), .is_free = true, .name = name}));
  }

  // Whether the daemon has hung up, without an answer.
  bool IsDropped() const {
    pollfd fd = {.fd = socket_.get(), .events = POLLIN, .revents = 0};
    char byte;
    return poll(&fd, 1, 20'000) == 1 && recv(socket_.get(), &byte, 1, 0) <= 0;
  }

 private:
  UniqueFd socket_;
};

// Waits for a daemon that is being started.
inline TorchConnection ConnectAsTorch(const ManagerFolder& folder) {
  TorchConnection connection(TorchPath(folder));
  EXPECT_TRUE(Becomes([&] {
    if (!connection.valid()) connection = TorchConnection(TorchPath(folder));
    return connection.valid();
  }));
  return connection;
}

// A file of torch with its count of references. Whether it is new.
inline bool MakeTorchFile(const std::string& name, int32_t references) {
  const UniqueFd file(shm_open(absl::StrCat("/", name).c_str(),
                               O_RDWR | O_CREAT | O_EXCL, 0600));
  return file.valid() && ftruncate(file.get(), 4096) == 0 &&
         pwrite(file.get(), &references, sizeof(references), 0) ==
             static_cast<ssize_t>(sizeof(references));
}

inline void SetReferences(const std::string& name, int32_t references) {
  const UniqueFd file(shm_open(absl::StrCat("/", name).c_str(), O_RDWR, 0));
  EXPECT_EQ(pwrite(file.get(), &references, sizeof(references), 0),
            static_cast<ssize_t>(sizeof(references)));
}

// -1 if there is no such file.
inline int32_t ReferencesOf(const std::string& name) {
  const UniqueFd file(shm_open(absl::StrCat("/", name).c_str(), O_RDONLY, 0));
  int32_t references = -1;
  if (file.valid()) {
    EXPECT_EQ(pread(file.get(), &references, sizeof(references), 0),
              static_cast<ssize_t>(sizeof(references)));
  }
  return references;
}

inline bool TorchFileExists(const std::string& name) {
  return access(absl::StrCat("/dev/shm/", name).c_str(), F_OK) == 0;
}

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_TORCH_TESTING_H_
