// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// LegacyLoans: tensors in memory that Tenon has not allocated, between
// processes (shm/tensor/tensor_loan.h). Internal to cuda_ipc.
//
// A loan is a block of an arena, which contains a legacy handle. The ledger of
// that arena says which processes hold the block, and so the memory: no count
// that a killed process leaves wrong, and a loan is passed on as any block is.
//
//   lender                                 borrower
//   Lend(): handle into a block            Borrow(): opens it, once for each
//   holds the memory while it is used      allocation; holds the block
//   here, or any process holds the block
//                                          closes it, and then only releases
//   the block is reclaimed: drops the      the block
//   memory
//
// The order at the borrower is what the driver demands: an exporter may free an
// allocation when no importer has it open.

#ifndef TENON_CUDA_IPC_INTERNAL_LEGACY_LOANS_H_
#define TENON_CUDA_IPC_INTERNAL_LEGACY_LOANS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/cuda_ipc/device_context.h"
#include "tenon/cuda_ipc/legacy_memory.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/base/fork_count.h"
#include "tenon/shm/base/thread_mutex.h"
#include "tenon/shm/tensor/storage.h"

namespace tenon::cuda_ipc {

// The loans of a process, and what it has borrowed.
// Ownership: owns the arena of the loans, the imports, and a thread, which
//   drops memory that is no longer lent and closes imports: within some 100 ms
//   of the last use, if no device keeps the driver waiting. Borrowed storages do
//   not outlive it.
// Threads: thread-safe. A borrowed storage that is dropped makes no driver call
//   and waits for nothing.
// Processes: of the process that made it; a forked child leaves it alone.
// Trust: a loan is bytes of another process. It can name any memory that its
//   lender's driver exports.
// Failure: a failed call has no visible effect.
class LegacyLoans {
 public:
  // `devices` outlives it. Errors: kResourceExhausted if the thread cannot be
  // started.
  static absl::StatusOr<std::unique_ptr<LegacyLoans>> Create(
      DeviceContexts& devices);
  LegacyLoans(const LegacyLoans&) = delete;
  LegacyLoans& operator=(const LegacyLoans&) = delete;
  ~LegacyLoans();

  // As DeviceMemory's. Makes driver calls for memory that is not lent yet, and
  // for allocations that are not open here.
  // Errors: LegacyImports' and Arena::Allocate()'s.
  absl::StatusOr<std::shared_ptr<Storage>> Lend(
      const DeviceContext& device, const std::shared_ptr<Storage>& memory);
  absl::StatusOr<std::shared_ptr<Storage>> Borrow(
      std::shared_ptr<Storage> loan);

  // The loan of memory that another program has exported, for Borrow(). It is
  // in no arena: `lender` is dropped once the allocation is closed here and no
  // process has the memory any more that got it from this one.
  static std::shared_ptr<Storage> LoanOfForeign(const LegacyHandle& handle,
                                                std::shared_ptr<void> lender);
  // The handle in a loan. Errors: kInvalidArgument if it is malformed.
  static absl::StatusOr<LegacyHandle> HandleIn(const Storage& loan);

  // What the thread does, now: drops memory that no process uses any more, and
  // closes imports that this one does not. Waits for the driver.
  void Collect();

 private:
  class Store;

  // Of the lender, by the address of the loan's block.
  struct Lent {
    std::shared_ptr<Storage> memory;
    std::shared_ptr<Storage> loan;  // Null once the memory is not used here.
    std::optional<LegacyExport> exported;  // Of memory of this process.
  };
  // Of the borrower.
  struct Borrowed {
    LegacyLoans& owner;
    const uint64_t fork_count;
    LegacyMemory memory;
    std::shared_ptr<Storage> loan;
    std::weak_ptr<Storage> self;
    const Storage* key = nullptr;    // In by_memory_.
    std::unique_ptr<Borrowed> next;  // In returned_.
    uint64_t returned_ms = 0;
  };
  using Returned = std::vector<std::unique_ptr<Borrowed>>;

  explicit LegacyLoans(DeviceContexts& devices)
      : devices_(devices), legacy_(devices, {.max_idle = SIZE_MAX}) {}

  absl::Status StartThread();
  void Run();
  enum class Linger { kYes, kNo };
  void Collect(Linger linger);

  absl::StatusOr<Arena*> ArenaOfLoans();
  std::shared_ptr<Storage> LoanOf(const Storage* memory);
  absl::StatusOr<std::shared_ptr<Storage>> AddLent(
      const std::shared_ptr<Storage>& memory, const LegacyHandle& handle,
      std::optional<LegacyExport> exported);
  // Of a block that no process holds any more.
  void Reclaimed(const std::byte* block);
  // In the thread that drops a borrowed storage.
  static void Return(Borrowed* borrowed);
  std::vector<std::shared_ptr<Storage>> TakeUnused();
  void DropLent();
  void CloseReturned(Linger linger);
  Returned TakeReturned() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  DeviceContexts& devices_;
  LegacyImports legacy_;
  const uint64_t fork_count_ = ForkCount();

  // Never held during a call of the driver or of an arena, nor while a storage
  // is dropped: an arena calls Reclaimed() with its lock held.
  ThreadMutex mutex_;
  ThreadCondition changed_;
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  bool sleeps_ ABSL_GUARDED_BY(mutex_) =
      false;  // The thread has nothing to do.
  std::shared_ptr<Arena> arena_ ABSL_GUARDED_BY(mutex_);
  // Keeps the first segment of the arena.
  std::shared_ptr<Storage> first_block_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const std::byte*, Lent> lent_ ABSL_GUARDED_BY(mutex_);
  // The keys of lent_, of memory that is used here.
  absl::flat_hash_map<const Storage*, const std::byte*> blocks_
      ABSL_GUARDED_BY(mutex_);
  std::vector<Lent> reclaimed_ ABSL_GUARDED_BY(mutex_);  // To be dropped.

  absl::flat_hash_map<const Storage*, Borrowed*> by_memory_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Storage*, Borrowed*> by_loan_
      ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Borrowed> returned_ ABSL_GUARDED_BY(mutex_);  // Newest first.
  size_t lingering_ ABSL_GUARDED_BY(mutex_) = 0;

  ThreadMutex collecting_;  // Acquired before mutex_.
  // The last of their allocations, for which another one may come soon.
  Returned last_ ABSL_GUARDED_BY(collecting_);
  // Of imports that the driver has failed to close.
  std::vector<std::shared_ptr<Storage>> unclosed_ ABSL_GUARDED_BY(collecting_);

  std::thread thread_;
};

}  // namespace tenon::cuda_ipc

#endif  // TENON_CUDA_IPC_INTERNAL_LEGACY_LOANS_H_
