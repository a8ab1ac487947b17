// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/exporter.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace tenon::cuda_ipc::fake {
namespace {

constexpr uint64_t kMagic = 0x6570697564756366;

struct Content {
  uint64_t magic;
  int32_t pid;
  int32_t fd;
  uint64_t started;  // In ticks since boot: a later process has another.
  uint64_t inode;    // A later file in the same descriptor has another.
};
static_assert(sizeof(Content) <= 64);

// 0 if there is no such process.
uint64_t StartOf(pid_t pid) {
  FILE* const file =
      fopen(("/proc/" + std::to_string(pid) + "/stat").c_str(), "re");
  if (file == nullptr) return 0;
  char line[1024];
  const bool is_read = fgets(line, sizeof(line), file) != nullptr;
  fclose(file);
  // The second field, in parentheses, may have spaces and parentheses.
  const char* field = is_read ? strrchr(line, ')') : nullptr;
  for (int i = 2; field != nullptr && i < 22; ++i) {
    field = strchr(field + 1, ' ');
  }
  return field == nullptr ? 0 : strtoull(field, nullptr, 10);
}

uint64_t InodeOf(int fd) {
  struct stat file;
  return fstat(fd, &file) == 0 ? file.st_ino : 0;
}

}  // namespace

void WriteHandle(const Memory& memory, char* handle) {
  const Content content = {.magic = kMagic,
                           .pid = getpid(),
                           .fd = memory.fd(),
                           .started = StartOf(getpid()),
                           .inode = InodeOf(memory.fd())};
  std::memset(handle, 0, 64);
  std::memcpy(handle, &content, sizeof(content));
}

CUresult OpenHandle(MemoryKind kind, const char* handle, Exported& exported) {
  Content content;
  std::memcpy(&content, handle, sizeof(content));
  if (content.magic != kMagic) return CUDA_ERROR_INVALID_HANDLE;
  // By the number alone, as the driver does.
  if (content.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, content.pid, 0));
  if (pidfd < 0) return CUDA_ERROR_INVALID_HANDLE;
  const std::string path = "/proc/" + std::to_string(content.pid) + "/fd/" +
                           std::to_string(content.fd);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  // The start time is read last: until here the number was the same process's.
  if (fd >= 0 && InodeOf(fd) == content.inode &&
      StartOf(content.pid) == content.started) {
    exported.memory = Memory::Open(kind, fd, result);
    if (result == CUDA_ERROR_INVALID_VALUE) result = CUDA_ERROR_INVALID_HANDLE;
  }
  if (fd >= 0) close(fd);
  if (exported.memory == nullptr) {
    close(pidfd);
    return result;
  }
  exported.exporter = pidfd;
  return CUDA_SUCCESS;
}

}  // namespace tenon::cuda_ipc::fake
