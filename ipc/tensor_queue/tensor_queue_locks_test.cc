// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The locked instructions and system calls of CreateTensor(), Put(), Get() and
// the release of one tensor in the steady state, and of a TimedMutex: the
// process runs instruction by instruction, and each is recognised by its bytes.
// The libraries are as users build them. A second thread lives, as the C and
// C++ libraries otherwise omit atomic steps.

#include <sys/ptrace.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/ipc/queue/queue_handle.h"
#include "tenon/ipc/tensor_queue/locked_instruction_testing.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue_testing.h"
#include "tenon/shm/arena/arena.h"
#include "tenon/shm/arena/arena_tensor.h"
#include "tenon/shm/arena/benchmark_support.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/locks/timed_mutex.h"
#include "tenon/shm/tensor/dtype.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/shm/testing/kill/pin_to_one_core.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/tracee.h"

namespace tenon {
namespace {

TEST(LockedInstructionTest, IsRecognisedByItsBytes) {
  const std::vector<std::vector<uint8_t>> locked = {
      {0xf0, 0x48, 0x0f, 0xc1, 0x07},        // lock xadd %rax,(%rdi)
      {0x66, 0xf0, 0x0f, 0xb1, 0x0f},        // lock cmpxchg %cx,(%rdi)
      {0xf0, 0x83, 0x0c, 0x24, 0x00},        // lock orl $0,(%rsp)
      {0x87, 0x07},                          // xchg %eax,(%rdi)
      {0x48, 0x87, 0x05, 0x00, 0, 0, 0x00},  // xchg %rax,0(%rip)
      {0x64, 0x48, 0x87, 0x04, 0x25, 0, 0},  // xchg %rax,%fs:0
      {0x86, 0x47, 0x08},                    // xchg %al,8(%rdi)
      {0x0f, 0xae, 0xf0},                    // mfence
  };
  for (const auto& code : locked) EXPECT_TRUE(IsLockedInstruction(code));
  const std::vector<std::vector<uint8_t>> others = {
      {},
      {0x48},
      {0x87},
      {0x48, 0x89, 0x07},              // mov %rax,(%rdi)
      {0x48, 0x87, 0xd8},              // xchg %rbx,%rax
      {0x66, 0x90},                    // xchg %ax,%ax
      {0x90},                          // nop
      {0xf3, 0x90},                    // pause
      {0x0f, 0xae, 0xe8},              // lfence
      {0x0f, 0xae, 0xf8},              // sfence
      {0x0f, 0xae, 0x37},              // xsaveopt (%rdi)
      {0xf3, 0x0f, 0xae, 0xf0},        // umonitor %rax
      {0x48, 0x0f, 0xc1, 0x07},        // xadd %rax,(%rdi)
      {0xb8, 0xf0, 0x87, 0x07, 0x00},  // mov $0x787f0,%eax
  };
  for (const auto& code : others) EXPECT_FALSE(IsLockedInstruction(code));
}

enum Call : uint32_t {
  kNone,
  kPut,
  kGet,
  kRelease,
  kNew,
  kDrop,
  kOwnMutex,
  kSharedMutex,
  kCalls
};

struct Cost {
  uint64_t instructions = 0;
  uint64_t locked = 0;
  uint64_t syscalls = 0;
};

// By call, the cost of each of its executions.
using Costs = std::array<std::vector<Cost>, kCalls>;

// The call that the victim executes, in memory shared with the test.
using CallWord = std::atomic<uint32_t>;

std::array<uint8_t, 16> BytesAt(pid_t process, uint64_t address) {
  std::array<uint8_t, 16> bytes = {};
  for (size_t i = 0; i < bytes.size(); i += sizeof(long)) {
    errno = 0;
    const long word = ptrace(PTRACE_PEEKTEXT, process, address + i, nullptr);
    if (errno != 0) break;  // The next page is not mapped.
    std::memcpy(&bytes[i], &word, sizeof(word));
  }
  return bytes;
}

Cost operator+(const Cost& a, const Cost& b) {
  return {a.instructions + b.instructions, a.locked + b.locked,
          a.syscalls + b.syscalls};
}

// The instructions of a victim, each read once.
class Instructions {
 public:
  explicit Instructions(pid_t victim) : victim_(victim) {}

  const Cost& At(uint64_t address) {
    const auto [found, is_new] = costs_.try_emplace(address);
    if (is_new) {
      const auto bytes = BytesAt(victim_, address);
      const auto code = std::span(bytes).first(kMaxInstructionBytes);
      found->second = {1, IsLockedInstruction(code),
                       IsSyscallInstruction(code)};
    }
    return found->second;
  }

 private:
  const pid_t victim_;
  std::unordered_map<uint64_t, Cost> costs_;
};

// Steps through the region of `body`, which stores in `call` the call that it
// executes.
void Measure(const CallWord& call,
             const std::function<void(const Reporter&)>& body, Costs* costs) {
  const PinToOneCore pin;
  TENON_ASSERT_OK_AND_ASSIGN(
      Tracee victim,
      Tracee::Start({.name = "victim", .watchdog = absl::Minutes(2)}, body));
  ASSERT_THAT(victim.RunToRegion(), IsOk());
  Instructions instructions(victim.child().pid());
  uint32_t before = kNone;
  while (!victim.region_ended()) {
    const uint32_t now = call.load();
    if (now != before && now != kNone) (*costs)[now].emplace_back();
    before = now;
    TENON_ASSERT_OK_AND_ASSIGN(const uint64_t at, victim.InstructionPointer());
    if (now != kNone) {
      Cost& cost = (*costs)[now].back();
      cost = cost + instructions.At(at);
    }
    TENON_ASSERT_OK_AND_ASSIGN(const Tracee::Stop stop,
                               victim.Resume(Tracee::How::kStep));
    ASSERT_EQ(stop, Tracee::Stop::kStep);
  }
  ASSERT_THAT(victim.RunToEnd(), IsOk());
  EXPECT_TRUE(victim.child().EndsWell());
}

// Each call is made some times after as many in advance.
class TensorQueueLocksTest : public testing::Test {
 protected:
  static constexpr int kPuts = 18;  // More than a sender keeps: 16.
  static constexpr int kGets = 5;
  // By the short way Put() and Get() take 461 and 488, otherwise 1,100 and
  // more.
  [[maybe_unused]] static constexpr uint64_t kMostInstructions = 700;

  void SetUp() override {
    if (const absl::Status can = CanTrace(); !can.ok()) GTEST_SKIP() << can;
    TENON_ASSERT_OK_AND_ASSIGN(here_, TensorQueue::Create());
    TENON_ASSERT_OK_AND_ASSIGN(handle_, here_->Share());
  }

  Tensor NewTensor(TensorQueue& queue) {
    auto tensor = queue.CreateTensor(kDtypeOf<uint8_t>, {4096}, TestDeadline());
    EXPECT_THAT(tensor, IsOk());
    return *std::move(tensor);
  }
  void Begin(Call call) { call_->store(call, std::memory_order_relaxed); }
  void End() { Begin(kNone); }

  // Of `count` executions of `call`, half have at most `typical` locked
  // instructions, and at most kMostInstructions, and all have at most `most`
  // locked ones; at most `polls` of them have system calls.
  void ExpectLocked(Call call, const char* name, size_t count, uint64_t typical,
                    uint64_t most, ptrdiff_t polls = 0) {
    std::vector<Cost>& all = costs_[call];
    ASSERT_EQ(all.size(), count);
    std::sort(all.begin(), all.end(), [](const Cost& a, const Cost& b) {
      return std::pair(a.locked, a.instructions) <
             std::pair(b.locked, b.instructions);
    });
    const Cost& median = all[all.size() / 2];
    std::cout << name << ": " << median.instructions << " instructions, "
              << median.locked << " locked; at most " << all.back().locked
              << "\n";
    EXPECT_GT(median.instructions, 0u);
#ifdef NDEBUG  // The libraries are optimised.
    EXPECT_LE(median.instructions, kMostInstructions);
#endif
    EXPECT_LE(median.locked, typical);
    EXPECT_LE(all.back().locked, most);
    EXPECT_LE(std::count_if(all.begin(), all.end(),
                            [](const Cost& c) { return c.syscalls != 0; }),
              polls);
  }

  std::unique_ptr<TensorQueue> here_;
  QueueHandle handle_;
  SharedObject<CallWord> call_;
  Costs costs_;
};

// A second participant of the victim has taken the messages put in advance: so
// one of the calls drops references to taken tensors.
TEST_F(TensorQueueLocksTest, Put) {
  Measure(
      *call_,
      [this](const Reporter&) {
        const SecondThread second_thread;
        TENON_ASSERT_OK_AND_ASSIGN(const auto from,
                                   TensorQueue::Open(std::move(handle_)));
        TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, from->Share());
        TENON_ASSERT_OK_AND_ASSIGN(const auto to,
                                   TensorQueue::Open(std::move(handle)));
        const Tensor tensor = NewTensor(*from);
        for (int i = 0; i < 2 * kPuts; ++i) {
          if (i == kPuts) BeginRegion();
          Begin(i < kPuts ? kNone : kPut);
          const absl::Status put = from->Put(tensor, Deadline::Never());
          End();
          ASSERT_THAT(put, IsOk());
          if (i >= kPuts) continue;
          ASSERT_THAT(to->GetTensor(Deadline::Never()), IsOk());
        }
        EndRegion();
      },
      &costs_);
  ExpectLocked(kPut, "Put()", kPuts, 1, 3);
}

// New tensors, which are put and taken, and then their last references, in
// blocks that were all used before. At least one call reclaims 64 blocks; each
// 64th polls the inbox, and each 64th Put().
TEST_F(TensorQueueLocksTest, NewAndDrop) {
  constexpr int kWarmUp = 100, kRounds = 4;
  Measure(
      *call_,
      [this](const Reporter&) {
        const SecondThread second_thread;
        TENON_ASSERT_OK_AND_ASSIGN(const auto from,
                                   TensorQueue::Open(std::move(handle_)));
        TENON_ASSERT_OK_AND_ASSIGN(QueueHandle handle, from->Share());
        TENON_ASSERT_OK_AND_ASSIGN(const auto to,
                                   TensorQueue::Open(std::move(handle)));
        for (int round = 0; round < kWarmUp + kRounds; ++round) {
          if (round == kWarmUp) BeginRegion();
          const bool counts = round >= kWarmUp;
          std::vector<Tensor> tensors;
          tensors.reserve(kPuts);
          for (int i = 0; i < kPuts; ++i) {
            Begin(counts ? kNew : kNone);
            auto created = from->CreateTensor(kDtypeOf<uint8_t>, {4096},
                                              Deadline::Never());
            End();
            ASSERT_THAT(created, IsOk());
            tensors.push_back(*std::move(created));
          }
          for (const Tensor& tensor : tensors) {
            ASSERT_THAT(from->Put(tensor, Deadline::Never()), IsOk());
            ASSERT_THAT(to->GetTensor(Deadline::Never()), IsOk());
          }
          ASSERT_THAT(from->AwaitTaken(Deadline::Never()), IsOk());
          for (Tensor& tensor : tensors) {
            Begin(counts ? kDrop : kNone);
            tensor = Tensor();
            End();
          }
        }
        EndRegion();
      },
      &costs_);
  ExpectLocked(kNew, "CreateTensor()", kRounds * kPuts, 0, 64, 4);
  ExpectLocked(kDrop, "drop", kRounds * kPuts, 0, 0);
}

// The same of tensors that are never described, by the only thread that uses
// the arena.
TEST_F(TensorQueueLocksTest, NewAndDropInAnArena) {
  Measure(
      *call_,
      [this](const Reporter&) {
        const SecondThread second_thread;
        TENON_ASSERT_OK_AND_ASSIGN(const auto arena, Arena::Create());
        for (int i = 0; i < 2 * kPuts; ++i) {
          if (i == kPuts) BeginRegion();
          Begin(i < kPuts ? kNone : kNew);
          auto created = CreateTensor(*arena, kDtypeOf<uint8_t>, {4096},
                                      Deadline::Never());
          End();
          ASSERT_THAT(created, IsOk());
          Tensor tensor = *std::move(created);
          Begin(i < kPuts ? kNone : kDrop);
          tensor = Tensor();
          End();
        }
        EndRegion();
      },
      &costs_);
  ExpectLocked(kNew, "CreateTensor() of an arena", kPuts, 0, 0);
  ExpectLocked(kDrop, "drop of its tensor", kPuts, 0, 0);
}

// Two participants of one process.
struct BothEnds {
  std::unique_ptr<TensorQueue> from = TensorQueue::Create().value();
  std::unique_ptr<TensorQueue> to =
      TensorQueue::Open(from->Share().value()).value();

  void PutAndGet(const Tensor& tensor) {
    ASSERT_THAT(from->Put(tensor, Deadline::Never()), IsOk());
    ASSERT_THAT(to->GetTensor(Deadline::Never()), IsOk());
  }
};

// Puts while another thread waits for another queue, 100 times in a row.
// Returns the longest time between two calls.
absl::Duration PutBesideAWaiter(BothEnds& ends, const Tensor& tensor) {
  const auto other = TensorQueue::Create().value();
  std::atomic<int> waits = 0;
  std::thread waiter([&] {
    while (waits.fetch_add(1) < 100) {
      const auto soon = Deadline::After(absl::Microseconds(100));
      EXPECT_FALSE(other->GetTensor(soon).ok());
    }
  });
  absl::Duration longest;
  for (absl::Time last = absl::Now(); waits.load() < 100;) {
    ends.PutAndGet(tensor);
    const absl::Time now = absl::Now();
    longest = std::max(longest, now - std::exchange(last, now));
  }
  waiter.join();
  return longest;
}

// A waiter does not take the lock of a sender from the thread that puts all the
// time, not even if the kernel does not run it for some milliseconds.
TEST_F(TensorQueueLocksTest, PutBesideAWaiter) {
  constexpr absl::Duration kPatience = absl::Seconds(30);
  Measure(
      *call_,
      [this](const Reporter&) {
        std::unique_ptr<BothEnds> ends;
        Tensor tensor;
        // On a busy machine the kernel may not run the thread for longer.
        bool undisturbed = false;
        const Deadline end = Deadline::After(kPatience);
        while (!undisturbed && !end.has_passed()) {
          ends = std::make_unique<BothEnds>();
          tensor = NewTensor(*ends->from);
          undisturbed =
              PutBesideAWaiter(*ends, tensor) <= absl::Milliseconds(15);
        }
        const SecondThread second_thread;
        BeginRegion();
        for (int i = 0; undisturbed && i < kPuts; ++i) {
          Begin(kPut);
          const absl::Status put = ends->from->Put(tensor, Deadline::Never());
          End();
          ASSERT_THAT(put, IsOk());
          ASSERT_THAT(ends->to->GetTensor(Deadline::Never()), IsOk());
        }
        EndRegion();
      },
      &costs_);
  if (costs_[kPut].empty() && !HasFailure()) {
    GTEST_SKIP() << "in each try of " << kPatience
                 << " the thread that puts stood still for 15 ms";
  }
  // One of them drops up to kPuts references, to a tensor that is in use. Each
  // 64th description of a block polls the arena's inbox.
  ExpectLocked(kPut, "Put() beside a waiter", kPuts, 1, 2 * kPuts, 1);
}

// The sender is another process, the test's.
TEST_F(TensorQueueLocksTest, GetAndRelease) {
  const Tensor tensor = NewTensor(*here_);
  for (int i = 0; i < 2 * kGets; ++i) {
    ASSERT_THAT(here_->Put(tensor, Deadline::Passed()), IsOk());
  }
  Measure(
      *call_,
      [this](const Reporter&) {
        const SecondThread second_thread;
        TENON_ASSERT_OK_AND_ASSIGN(const auto queue,
                                   TensorQueue::Open(std::move(handle_)));
        for (int i = 0; i < 2 * kGets; ++i) {
          if (i == kGets) BeginRegion();
          Begin(i < kGets ? kNone : kGet);
          auto got = queue->GetTensor(Deadline::Never());
          End();
          ASSERT_THAT(got, IsOk());
          Tensor received = *std::move(got);
          Begin(i < kGets ? kNone : kRelease);
          received = Tensor();
          End();
        }
        EndRegion();
      },
      &costs_);
  ExpectLocked(kGet, "Get()", kGets, 2, 2);
  ExpectLocked(kRelease, "release", kGets, 1, 1);
}

void LockAndUnlock(TimedMutex* mutex, int* held) {
  const TimedMutexLock lock(mutex, Deadline::Never());
  *held += lock.held() ? 1 : 0;
}

// Locked and unlocked by the thread that uses it alone, and by one that shares
// it.
TEST_F(TensorQueueLocksTest, TimedMutex) {
  constexpr int kLocks = 5;
  Measure(
      *call_,
      [this](const Reporter&) {
        const SecondThread second_thread;
        TimedMutex own, shared;
        int held = 0;
        LockAndUnlock(&own, &held);
        LockAndUnlock(&shared, &held);
        std::thread([&] { LockAndUnlock(&shared, &held); }).join();
        BeginRegion();
        for (int i = 0; i < kLocks; ++i) {
          Begin(kOwnMutex);
          LockAndUnlock(&own, &held);
          End();
          Begin(kSharedMutex);
          LockAndUnlock(&shared, &held);
          End();
        }
        EndRegion();
        EXPECT_EQ(held, 3 + 2 * kLocks);
      },
      &costs_);
  ExpectLocked(kOwnMutex, "TimedMutex of one thread", kLocks, 0, 0);
  ExpectLocked(kSharedMutex, "TimedMutex of two threads", kLocks, 2, 2);
  for (const Cost& cost : costs_[kSharedMutex]) EXPECT_EQ(cost.locked, 2u);
}

}  // namespace
}  // namespace tenon
