// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/cuda_ipc/internal/legacy_loans.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "dlpack/dlpack.h"
#include "tenon/cuda_ipc/cuda_api.h"
#include "tenon/cuda_ipc/internal/quarantine.h"
#include "tenon/shm/arena/arena_options.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/internal/mapped_memory.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/sharing_strategy.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"

namespace tenon::cuda_ipc {
namespace {

constexpr char kWhat[] = "the loans of CUDA memory of this process";

// How long the last borrowed memory of an allocation is kept: to open the
// allocation again for the next one costs 200 microseconds, and to close it
// waits for the device.
constexpr absl::Duration kLingering = absl::Milliseconds(50);
constexpr absl::Duration kWhileReturned = absl::Milliseconds(20);
constexpr absl::Duration kWhileLent = absl::Milliseconds(100);

// The bytes of a loan.
struct Record {
  static constexpr uint64_t kMagic = 0x316e614f4c617564;

  uint64_t magic = kMagic;
  uint64_t writable = 0;
  LegacyHandle handle;
};
static_assert(std::is_trivially_copyable_v<Record>);
static_assert(sizeof(Record) == 112);

uint64_t NowMs() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now().time_since_epoch())
          .count());
}

absl::StatusOr<Record> ReadRecord(const Storage& loan) {
  TENON_ASSIGN_OR_RETURN(const std::byte* const bytes, loan.Read());
  Record record;
  if (loan.size_bytes() < sizeof(record)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Borrow(): a loan of ", loan.size_bytes(),
                     " bytes; want at least ", sizeof(record)));
  }
  std::memcpy(&record, bytes, sizeof(record));  // Checked and used is the copy.
  if (record.magic == Record::kMagic && record.handle.bytes != 0) return record;
  return absl::InvalidArgumentError(absl::StrCat(
      "Borrow(): malformed loan: magic 0x", absl::Hex(record.magic), ", ",
      record.handle.bytes, " bytes"));
}

}  // namespace

// Blocks of the CPU. An arena that poisons its free blocks says of each when no
// process holds it any more.
class LegacyLoans::Store final : public MappedStore {
 public:
  Store(const ArenaOptions& options, LegacyLoans& owner)
      : MappedStore(options, {.quarantine = kQuarantine}), owner_(owner) {}

  void Poison(std::byte* block, size_t bytes) override {
    MappedStore::Poison(block, bytes);
    owner_.Reclaimed(block);
  }

 private:
  LegacyLoans& owner_;
};

absl::StatusOr<std::unique_ptr<LegacyLoans>> LegacyLoans::Create(
    DeviceContexts& devices) {
  std::unique_ptr<LegacyLoans> loans(new LegacyLoans(devices));
  TENON_RETURN_IF_ERROR(loans->StartThread());
  return loans;
}

LegacyLoans::~LegacyLoans() {
  if (!thread_.joinable()) return;
  {
    const ThreadLock lock(&mutex_);
    stops_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
  Collect();
}

absl::Status LegacyLoans::StartThread() {
  // Signals are for threads of the program.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  absl::Status started;
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& e) {
    started = absl::ResourceExhaustedError(absl::StrCat(
        "pthread_create: the thread that ends loans of device memory: ",
        e.what()));
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

// It is told of nothing but the first loan and the first return: releases in
// other processes, and of the lent memory, have no event.
void LegacyLoans::Run() {
  for (;;) {
    {
      const ThreadLock lock(&mutex_);
      while (!stops_ && lent_.empty() && returned_ == nullptr &&
             lingering_ == 0) {
        sleeps_ = true;
        changed_.Wait(&mutex_);
      }
      sleeps_ = false;
      const bool is_returned = returned_ != nullptr || lingering_ != 0;
      if (!stops_) {
        changed_.WaitFor(&mutex_, is_returned ? kWhileReturned : kWhileLent);
      }
      if (stops_) return;
    }
    Collect(Linger::kYes);
  }
}

void LegacyLoans::Collect() { Collect(Linger::kNo); }

void LegacyLoans::Collect(Linger linger) {
  if (fork_count_ != ForkCount()) return;
  // Lent memory may be an import: the end of its loan returns the import, which
  // CloseReturned() then closes.
  DropLent();
  CloseReturned(linger);
}

// ---- The lender ----

absl::StatusOr<Arena*> LegacyLoans::ArenaOfLoans() {
  {
    const ThreadLock lock(&mutex_);
    if (arena_ != nullptr) return arena_.get();
  }
  ArenaOptions options;
  options.name = "loans";
  options.segment.strategy = SharingStrategy::kFileDescriptor;
  options.debug = ArenaDebug::kPoison;
  TENON_ASSIGN_OR_RETURN(
      std::shared_ptr<Arena> arena,
      Arena::Create(options, std::make_unique<Store>(options, *this)));
  TENON_ASSIGN_OR_RETURN(const Tensor first,
                         CreateTensor(*arena, kDtypeOf<uint8_t>,
                                      {sizeof(Record)}, Deadline::Passed()));
  const ThreadLock lock(&mutex_);
  if (arena_ == nullptr) {
    arena_ = std::move(arena);
    first_block_ = first.storage();
  }
  return arena_.get();
}

// Null if the memory is neither lent nor borrowed.
std::shared_ptr<Storage> LegacyLoans::LoanOf(const Storage* memory) {
  const ThreadLock lock(&mutex_);
  if (const auto lent = blocks_.find(memory); lent != blocks_.end()) {
    return lent_.find(lent->second)->second.loan;
  }
  const auto borrowed = by_memory_.find(memory);
  return borrowed == by_memory_.end() ? nullptr : borrowed->second->loan;
}

absl::StatusOr<std::shared_ptr<Storage>> LegacyLoans::Lend(
    const DeviceContext& device, const std::shared_ptr<Storage>& memory) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  if (std::shared_ptr<Storage> known = LoanOf(memory.get())) {
    if (known->lease() != nullptr) return known;
    // Of another program: receivers need one that is in an arena.
    TENON_ASSIGN_OR_RETURN(const LegacyHandle handle, HandleIn(*known));
    return AddLent(memory, handle, std::nullopt);
  }
  TENON_ASSIGN_OR_RETURN(std::byte* const address, memory->Address());
  TENON_ASSIGN_OR_RETURN(
      LegacyExport exported,
      legacy_.Export(device, reinterpret_cast<uintptr_t>(address),
                     memory->size_bytes()));
  const LegacyHandle handle = exported.handle();
  return AddLent(memory, handle, std::move(exported));
}

absl::StatusOr<std::shared_ptr<Storage>> LegacyLoans::AddLent(
    const std::shared_ptr<Storage>& memory, const LegacyHandle& handle,
    std::optional<LegacyExport> exported) {
  TENON_ASSIGN_OR_RETURN(Arena* const arena, ArenaOfLoans());
  TENON_ASSIGN_OR_RETURN(const Tensor block,
                         CreateTensor(*arena, kDtypeOf<uint8_t>,
                                      {sizeof(Record)}, Deadline::Passed()));
  TENON_ASSIGN_OR_RETURN(std::byte* const bytes, block.storage()->Write());
  const Record record = {.writable = memory->writable(), .handle = handle};
  std::memcpy(bytes, &record, sizeof(record));
  TENON_CRASH_POINT("legacy_loans.lending");
  const ThreadLock lock(&mutex_);
  const auto [known, is_new] = blocks_.emplace(memory.get(), bytes);
  // Another thread may have lent it meanwhile.
  if (!is_new) return lent_.find(known->second)->second.loan;
  lent_.emplace(bytes, Lent{.memory = memory,
                            .loan = block.storage(),
                            .exported = std::move(exported)});
  if (sleeps_) changed_.NotifyAll();
  return block.storage();
}

void LegacyLoans::Reclaimed(const std::byte* block) {
  const ThreadLock lock(&mutex_);
  const auto lent = lent_.find(block);
  if (lent == lent_.end()) return;
  reclaimed_.push_back(std::move(lent->second));
  lent_.erase(lent);
}

// Those of memory that no tensor of this process uses.
std::vector<std::shared_ptr<Storage>> LegacyLoans::TakeUnused() {
  std::vector<std::shared_ptr<Storage>> unused;
  const ThreadLock lock(&mutex_);
  for (auto& [block, lent] : lent_) {
    if (lent.loan == nullptr || lent.memory.use_count() != 1) continue;
    blocks_.erase(lent.memory.get());
    unused.push_back(std::move(lent.loan));
    lent.loan = nullptr;
  }
  return unused;
}

void LegacyLoans::DropLent() {
  std::shared_ptr<Arena> arena;
  {
    const ThreadLock lock(&mutex_);
    if (lent_.empty()) return;
    arena = arena_;
  }
  // Each fails in a forked child alone. The first one also has queues drop what
  // receivers have claimed; the second reclaims what is unused then.
  static_cast<void>(arena->Trim());
  std::vector<std::shared_ptr<Storage>> unused = TakeUnused();
  if (!unused.empty()) {
    TENON_CRASH_POINT("legacy_loans.unused");
    unused.clear();
    static_cast<void>(arena->Trim());
  }
  std::vector<Lent> reclaimed;
  {
    const ThreadLock lock(&mutex_);
    reclaimed.swap(reclaimed_);
  }
  if (!reclaimed.empty()) TENON_CRASH_POINT("legacy_loans.reclaimed");
}

// ---- The borrower ----

std::shared_ptr<Storage> LegacyLoans::LoanOfForeign(
    const LegacyHandle& handle, std::shared_ptr<void> lender) {
  struct Loan {
    Record record;
    std::shared_ptr<void> lender;
  };
  const auto loan = std::make_shared<Loan>(
      Loan{{.writable = 1, .handle = handle}, std::move(lender)});
  return Storage::FromLent({.data = reinterpret_cast<std::byte*>(&loan->record),
                            .size_bytes = sizeof(Record),
                            .lender = loan});
}

absl::StatusOr<LegacyHandle> LegacyLoans::HandleIn(const Storage& loan) {
  TENON_ASSIGN_OR_RETURN(const Record record, ReadRecord(loan));
  return record.handle;
}

absl::StatusOr<std::shared_ptr<Storage>> LegacyLoans::Borrow(
    std::shared_ptr<Storage> loan) {
  TENON_RETURN_IF_ERROR(CheckNotForked(fork_count_, kWhat));
  {
    const ThreadLock lock(&mutex_);
    const auto known = by_loan_.find(loan.get());
    if (known != by_loan_.end()) {
      std::shared_ptr<Storage> memory = known->second->self.lock();
      if (memory != nullptr) return memory;
    }
  }
  TENON_ASSIGN_OR_RETURN(const Record record, ReadRecord(*loan));
  TENON_ASSIGN_OR_RETURN(const DeviceContext* const device,
                         devices_.Find(record.handle.device));
  TENON_ASSIGN_OR_RETURN(LegacyMemory opened, legacy_.Open(record.handle));
  TENON_CRASH_POINT("legacy_loans.opened");
  auto borrowed =
      std::make_unique<Borrowed>(Borrowed{.owner = *this,
                                          .fork_count = fork_count_,
                                          .memory = std::move(opened),
                                          .loan = std::move(loan),
                                          .self = {},
                                          .next = nullptr});
  Borrowed& kept = *borrowed;
  std::shared_ptr<Storage> memory = Storage::FromLent(
      {.data = reinterpret_cast<std::byte*>(
           static_cast<uintptr_t>(kept.memory.address())),
       .size_bytes = kept.memory.size(),
       .writable = record.writable != 0,
       .lender = std::shared_ptr<Borrowed>(borrowed.release(), Return),
       .device = {.device_type = kDLCUDA,
                  .device_id = device->device().ordinal}});
  const ThreadLock lock(&mutex_);
  kept.self = memory;
  kept.key = memory.get();
  by_memory_[memory.get()] = &kept;
  by_loan_[kept.loan.get()] = &kept;
  return memory;
}

void LegacyLoans::Return(Borrowed* borrowed) {
  // In a forked child nothing is the child's.
  if (borrowed->fork_count != ForkCount()) return;
  LegacyLoans& owner = borrowed->owner;
  const ThreadLock lock(&owner.mutex_);
  // Another one may have the key already.
  const auto erase = [&](auto& map, const Storage* key) {
    const auto known = map.find(key);
    if (known != map.end() && known->second == borrowed) map.erase(known);
  };
  erase(owner.by_memory_, borrowed->key);
  erase(owner.by_loan_, borrowed->loan.get());
  borrowed->returned_ms = NowMs();
  borrowed->next = std::move(owner.returned_);
  owner.returned_.reset(borrowed);
  if (owner.sleeps_) owner.changed_.NotifyAll();
}

// Newest first.
LegacyLoans::Returned LegacyLoans::TakeReturned() {
  Returned all;
  while (returned_ != nullptr) {
    std::unique_ptr<Borrowed> first = std::move(returned_);
    returned_ = std::move(first->next);
    all.push_back(std::move(first));
  }
  return all;
}

// Closes an allocation before the last of its loans is released.
void LegacyLoans::CloseReturned(Linger linger) {
  const ThreadLock collecting(&collecting_);
  Returned returned;
  {
    const ThreadLock lock(&mutex_);
    returned = TakeReturned();
  }
  std::move(last_.begin(), last_.end(), std::back_inserter(returned));
  last_.clear();
  absl::flat_hash_set<const void*> allocations;
  std::vector<std::shared_ptr<Storage>> loans;
  const uint64_t now = NowMs();
  for (std::unique_ptr<Borrowed>& borrowed : returned) {
    const bool is_last =
        allocations.insert(borrowed->memory.allocation()).second;
    if (is_last && linger == Linger::kYes &&
        now - borrowed->returned_ms <
            static_cast<uint64_t>(absl::ToInt64Milliseconds(kLingering))) {
      last_.push_back(std::move(borrowed));
    } else {
      loans.push_back(std::move(borrowed->loan));
      borrowed.reset();
    }
  }
  {
    const ThreadLock lock(&mutex_);
    lingering_ = last_.size();
  }
  if (loans.empty() && unclosed_.empty()) return;
  TENON_CRASH_POINT("legacy_loans.closing");
  if (!legacy_.Sweep().ok()) {
    std::move(loans.begin(), loans.end(), std::back_inserter(unclosed_));
    return;
  }
  TENON_CRASH_POINT("legacy_loans.closed");
  unclosed_.clear();
}

}  // namespace tenon::cuda_ipc
