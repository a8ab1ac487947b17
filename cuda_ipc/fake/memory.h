// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Memory: memory of a device, as a memfd that any process can hold; and the
// addresses at which this process's devices see it.
//
// The kernel counts the holders of a memfd, so memory is gone with its last
// handle, mapping or descriptor in any process, also after SIGKILL. The CPU
// cannot read a device address: it is a range without access, and the fake
// reads and writes through a mapping of its own.

#ifndef TENON_CUDA_IPC_FAKE_MEMORY_H_
#define TENON_CUDA_IPC_FAKE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tenon/cuda_ipc/cuda_api.h"

namespace tenon::cuda_ipc::fake {

inline constexpr size_t kGranularity = size_t{2} << 20;
inline constexpr size_t kHostPage = 4096;

enum class MemoryKind { kVirtual, kLegacy, kEvent };

class Memory {
 public:
  // New memory of zeros. Null, with `error` set, at the limit of the device or
  // of this process.
  static std::shared_ptr<Memory> Create(MemoryKind kind, int device,
                                        size_t bytes, CUresult& error);
  // The memory of a descriptor, which is duplicated. Null, with `error` set, if
  // it is none of this kind or of a device that this process does not see.
  static std::shared_ptr<Memory> Open(MemoryKind kind, int fd, CUresult& error);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* data() const { return data_; }  // For the fake itself.
  size_t bytes() const { return bytes_; }
  int device() const { return device_; }
  int fd() const { return fd_; }
  bool is_exportable = false;

 private:
  Memory() = default;
  bool Map(CUresult& error);

  int fd_ = -1;
  int device_ = -1;
  size_t bytes_ = 0;
  char* data_ = nullptr;
};

// Bytes that processes of this machine hold of a device, each memory once, as
// the kernel knows them. Memory in an unread message is not seen.
size_t HeldBytes(int device);

// Addresses without access for the CPU; 0 if there are none left.
CUdeviceptr ReserveAddresses(size_t bytes, size_t alignment);
void FreeAddresses(CUdeviceptr address, size_t bytes);

enum class RangeKind {
  kMapping,     // cuMemMap
  kAllocation,  // cuMemAlloc
  kImport,      // cuIpcOpenMemHandle
  kHost,        // cuMemHostRegister
};

// A range of addresses with memory behind it.
struct Range {
  RangeKind kind;
  size_t bytes;
  std::shared_ptr<Memory> memory;  // Null for kHost.
  char* data;
  std::map<int, int> access;  // CUmemAccess_flags by device; -1 is all devices.
  CUcontext context = nullptr;              // Not of kMapping.
  CUmemGenericAllocationHandle handle = 0;  // Of kMapping.
  int opens = 0;                            // Of kImport.
  std::string import_key;                   // Of kImport.
  int exporter = -1;                        // Of kImport: a pidfd.
  uintptr_t host = 0;                       // Of kHost: as registered,
  unsigned flags = 0;                       // and how.
};

struct Reservation {
  size_t bytes;
};

// Guards all tables of the fake. Not held while a stream works or waits.
std::mutex& TableLock();

struct AddressSpace {
  std::map<CUdeviceptr, Range> ranges;
  std::map<CUdeviceptr, Reservation> reservations;

  // The range with this address, or ranges.end().
  std::map<CUdeviceptr, Range>::iterator Find(CUdeviceptr address);
};
// With TableLock().
AddressSpace& Addresses();

// Unmaps and forgets the range.
void DropRange(std::map<CUdeviceptr, Range>::iterator range);

// Whether memory is behind all of these addresses, with access or not.
bool IsKnown(CUdeviceptr address, size_t bytes);

// Reads or writes device memory on behalf of `device`, piece by piece. Returns
// CUDA_ERROR_ILLEGAL_ADDRESS, and ends all work of this process, if the device
// has no such access. Takes TableLock().
CUresult Access(int device, CUdeviceptr address, size_t bytes, bool is_write,
                const std::function<void(char*, size_t)>& piece);

// The access that this process has to all of these pages of the CPU, as bits
// PROT_READ and PROT_WRITE; -1 if one is not mapped.
int HostAccess(uintptr_t start, size_t bytes);

// Whether the memory of the CPU is all in registered ranges. Takes TableLock().
bool IsRegistered(const void* memory, size_t bytes);

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_MEMORY_H_
