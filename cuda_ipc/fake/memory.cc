// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/fake/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "tenon/cuda_ipc/fake/exports.h"
#include "tenon/cuda_ipc/fake/settings.h"

namespace tenon::cuda_ipc::fake {
namespace {

// Only these paths are links to a memfd; no file can have this name.
constexpr char kPrefix[] = "/memfd:tenon-cuda.";

std::string HexUuid(int device) {
  std::string hex;
  for (const unsigned char byte : CurrentSettings().devices[device].uuid) {
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", byte);
    hex += digits;
  }
  return hex;
}

const char* KindName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kVirtual:
      return "virtual";
    case MemoryKind::kLegacy:
      return "legacy";
    case MemoryKind::kEvent:
      return "event";
  }
  abort();
}

// "tenon-cuda.<machine>.<uuid>.<kind>", without the name of the file system.
std::string NameOf(MemoryKind kind, int device) {
  return "tenon-cuda." + CurrentSettings().machine + "." + HexUuid(device) +
         "." + KindName(kind);
}

// The target of a link in /proc, empty if there is none.
std::string Target(const std::string& link) {
  char target[512];
  const ssize_t length = readlink(link.c_str(), target, sizeof(target));
  return length < 0 ? "" : std::string(target, length);
}

bool IsMemoryOf(const std::string& path, const std::string& name) {
  return path == "/memfd:" + name + " (deleted)";
}

// Adds memory that a process holds by descriptors.
void AddDescriptors(const std::string& process, const std::string& name,
                    std::map<ino_t, size_t>& found) {
  const std::string folder = process + "/fd";
  DIR* const entries = opendir(folder.c_str());
  if (entries == nullptr) return;
  while (const dirent* const entry = readdir(entries)) {
    const std::string link = folder + "/" + entry->d_name;
    struct stat file;
    if (IsMemoryOf(Target(link), name) && stat(link.c_str(), &file) == 0) {
      found[file.st_ino] = file.st_size;
    }
  }
  closedir(entries);
}

// Adds memory that a process has mapped: the fake maps all of it at once.
void AddMappings(const std::string& process, const std::string& name,
                 std::map<ino_t, size_t>& found) {
  FILE* const maps = fopen((process + "/maps").c_str(), "re");
  if (maps == nullptr) return;
  char line[1024];
  while (fgets(line, sizeof(line), maps) != nullptr) {
    unsigned long start = 0, end = 0, inode = 0;
    int path = 0;
    if (sscanf(line, "%lx-%lx %*s %*s %*s %lu %n", &start, &end, &inode,
               &path) != 3) {
      continue;
    }
    std::string text = line + path;
    if (!text.empty() && text.back() == '\n') text.pop_back();
    if (IsMemoryOf(text, name)) found.emplace(inode, end - start);
  }
  fclose(maps);
}

bool HasEnded(int pidfd) {
  pollfd poll_on = {.fd = pidfd, .events = POLLIN, .revents = 0};
  return poll(&poll_on, 1, 0) == 1;
}

bool MayAccess(const Range& range, int device, bool is_write) {
  if (range.kind == RangeKind::kImport && HasEnded(range.exporter)) {
    return false;
  }
  auto flags = range.access.find(device);
  if (flags == range.access.end()) flags = range.access.find(-1);
  if (flags == range.access.end()) return false;
  const int wanted = is_write ? 2 : 1;
  return (flags->second & wanted) != 0;
}

}  // namespace

std::shared_ptr<Memory> Memory::Create(MemoryKind kind, int device,
                                       size_t bytes, CUresult& error) {
  error = CUDA_ERROR_OUT_OF_MEMORY;
  const size_t total = CurrentSettings().devices[device].total_bytes;
  if (kind != MemoryKind::kEvent &&
      (bytes > total || HeldBytes(device) > total - bytes)) {
    return nullptr;
  }
  std::shared_ptr<Memory> memory(new Memory);
  memory->device_ = device;
  memory->bytes_ = bytes;
  memory->fd_ = memfd_create(NameOf(kind, device).c_str(), MFD_CLOEXEC);
  if (memory->fd_ < 0 ||
      ftruncate(memory->fd_, static_cast<off_t>(bytes)) != 0 ||
      !memory->Map(error)) {
    return nullptr;
  }
  return memory;
}

std::shared_ptr<Memory> Memory::Open(MemoryKind kind, int fd, CUresult& error) {
  error = CUDA_ERROR_INVALID_VALUE;
  const std::string path = Target("/proc/self/fd/" + std::to_string(fd));
  if (path.compare(0, sizeof(kPrefix) - 1, kPrefix) != 0 ||
      path.find(std::string(".") + KindName(kind) + " ") == std::string::npos) {
    return nullptr;
  }
  std::shared_ptr<Memory> memory(new Memory);
  const int count = static_cast<int>(CurrentSettings().devices.size());
  for (int device = 0; device < count; ++device) {
    if (IsMemoryOf(path, NameOf(kind, device))) memory->device_ = device;
  }
  if (memory->device_ < 0) {
    error = CUDA_ERROR_NOT_SUPPORTED;
    return nullptr;
  }
  struct stat file;
  memory->fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (memory->fd_ < 0 || fstat(memory->fd_, &file) != 0) return nullptr;
  memory->bytes_ = file.st_size;
  if (!memory->Map(error)) return nullptr;
  return memory;
}

bool Memory::Map(CUresult& error) {
  void* const data = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (data == MAP_FAILED) {
    error = CUDA_ERROR_OUT_OF_MEMORY;
    return false;
  }
  // A forked process has no device, and must not keep memory alive.
  madvise(data, bytes_, MADV_DONTFORK);
  madvise(data, bytes_, MADV_DONTDUMP);
  data_ = static_cast<char*>(data);
  error = CUDA_SUCCESS;
  return true;
}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (fd_ >= 0) close(fd_);
}

size_t HeldBytes(int device) {
  std::map<ino_t, size_t> found;
  DIR* const processes = opendir("/proc");
  if (processes == nullptr) return 0;
  while (const dirent* const entry = readdir(processes)) {
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    const std::string process = std::string("/proc/") + entry->d_name;
    for (const MemoryKind kind : {MemoryKind::kVirtual, MemoryKind::kLegacy}) {
      const std::string name = NameOf(kind, device);
      AddDescriptors(process, name, found);
      AddMappings(process, name, found);
    }
  }
  closedir(processes);
  size_t sum = 0;
  for (const auto& [inode, bytes] : found) sum += bytes;
  return sum;
}

CUdeviceptr ReserveAddresses(size_t bytes, size_t alignment) {
  const size_t more = bytes + alignment;
  void* const start = mmap(nullptr, more, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return 0;
  const auto address = reinterpret_cast<CUdeviceptr>(start);
  const CUdeviceptr aligned = (address + alignment - 1) / alignment * alignment;
  const CUdeviceptr end = address + more;
  if (aligned > address) munmap(start, aligned - address);
  if (end > aligned + bytes) {
    munmap(reinterpret_cast<void*>(aligned + bytes), end - (aligned + bytes));
  }
  return aligned;
}

void FreeAddresses(CUdeviceptr address, size_t bytes) {
  munmap(reinterpret_cast<void*>(address), bytes);
}

std::mutex& TableLock() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

AddressSpace& Addresses() {
  static auto* const addresses = new AddressSpace;
  return *addresses;
}

std::map<CUdeviceptr, Range>::iterator AddressSpace::Find(CUdeviceptr address) {
  auto found = ranges.upper_bound(address);
  if (found == ranges.begin()) return ranges.end();
  --found;
  return address - found->first < found->second.bytes ? found : ranges.end();
}

void DropRange(std::map<CUdeviceptr, Range>::iterator range) {
  if (range->second.kind != RangeKind::kMapping) {
    FreeAddresses(range->first, range->second.bytes);
  }
  if (range->second.exporter >= 0) close(range->second.exporter);
  Addresses().ranges.erase(range);
}

bool IsKnown(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(TableLock());
  const CUdeviceptr end = address + bytes;
  while (address < end) {
    const auto range = Addresses().Find(address);
    if (range == Addresses().ranges.end()) return false;
    address = range->first + range->second.bytes;
  }
  return true;
}

CUresult Access(int device, CUdeviceptr address, size_t bytes, bool is_write,
                const std::function<void(char*, size_t)>& piece) {
  while (bytes > 0) {
    std::shared_ptr<Memory> keeps_alive;
    char* data = nullptr;
    size_t size = 0;
    {
      const std::lock_guard lock(TableLock());
      const auto range = Addresses().Find(address);
      if (range == Addresses().ranges.end() ||
          !MayAccess(range->second, device, is_write)) {
        return EndAllWork(CUDA_ERROR_ILLEGAL_ADDRESS);
      }
      const size_t offset = address - range->first;
      keeps_alive = range->second.memory;
      data = range->second.data + offset;
      size = std::min(bytes, range->second.bytes - offset);
    }
    piece(data, size);
    address += size;
    bytes -= size;
  }
  return CUDA_SUCCESS;
}

bool IsRegistered(const void* memory, size_t bytes) {
  const auto start = reinterpret_cast<uintptr_t>(memory);
  const std::lock_guard lock(TableLock());
  for (const auto& [address, range] : Addresses().ranges) {
    if (range.kind != RangeKind::kHost) continue;
    const auto data = reinterpret_cast<uintptr_t>(range.data);
    if (start >= data && start + bytes <= data + range.bytes) return true;
  }
  return false;
}

}  // namespace tenon::cuda_ipc::fake
