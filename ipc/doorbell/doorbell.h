// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Doorbell: how one process waits for values that others publish in memory, at
// the cost of a cache line while it spins and of one wake-up when it sleeps.
//
//   // The sleeper, whose memory holds the `sleeping` word:
//   TENON_ASSIGN_OR_RETURN(auto bell, Doorbell::Create(&words->sleeping, "x"));
//   TENON_RETURN_IF_ERROR(bell->AddParticipant(1, producer.fd()));  // A pidfd.
//   TENON_ASSIGN_OR_RETURN(WaitOutcome outcome, bell->Wait(ready, deadline));
//
//   // A ringer has a read-only map of the word, and a duplicate of bell_fd():
//   StdAtomics::Store(head, n, std::memory_order_seq_cst);
//   ringer.Ring();                              // A load, if no thread sleeps.
//
// In an event loop, which waits for PollFd() instead:
//   TENON_ASSIGN_OR_RETURN(bool sleep, bell->Arm(ready));
//   if (sleep) epoll_wait(epoll_fd, events, 8, -1);
//   bell->Disarm();

#ifndef TENON_IPC_DOORBELL_DOORBELL_H_
#define TENON_IPC_DOORBELL_DOORBELL_H_

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tenon/ipc/doorbell/sleeping_word.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

// The event that ended a wait.
struct WaitOutcome {
  enum Kind {
    kReady,     // `ready` holds.
    kDeadline,  // `ready` does not hold, and the deadline has passed.
    kDied,      // `ready` does not hold, and a participant has died.
  };
  Kind kind = kReady;
  uint64_t participant = 0;  // The one that died.
};

// What a doorbell has seen, for tests and reports.
struct DoorbellCounts {
  uint64_t spins_won = 0;    // Waits that ended while spinning.
  uint64_t sleeps = 0;       // Calls of poll().
  uint64_t asleep_ns = 0;    // In those with a deadline that had not passed.
  uint64_t empty_wakes = 0;  // Rung for, and nothing was there.
  uint64_t pauses = 0;       // Taken because of too many of these.
};

// The sleeper's end of a doorbell.
// Ownership: owns its descriptors (close-on-exec). The word, and the pidfds of
//   participants, are the caller's and outlive it.
// Threads: one waits; no other function may be called meanwhile.
// Processes: inert in a forked child: calls fail with kFailedPrecondition.
// Trust: a ringer may ring all the time. After kFreeEmptyWakes wakes in a row
//   without `ready` the bell is ignored for 1 ms, then 2, up to kLongestPause,
//   with one check after each pause: so at most about 60 wakes a second, and a
//   publication waits that much longer. A ringer that never rings, or that
//   swallows the rings of others by reading the descriptor, costs a wait its
//   deadline. Neither can block a call: the only wait here is poll(), whatever
//   a peer does to the flags of the descriptor.
// Failure: a failed call changes nothing and may be repeated.
class Doorbell {
 public:
  static constexpr uint64_t kFreeEmptyWakes = 16;
  static constexpr int kLongestPauseMs = 16;

  // How a sleep that begins and a publication do not miss each other
  // (sleep_protocol.h).
  enum class Barriers {
    // The sleeper fences all, if the kernel permits it: a publication has no
    // barrier, a sleep has a system call that interrupts the cores of peers.
    kBySleeper,
    // Each publication is a seq_cst store, and a sleep does not fence.
    kByPublisher,
  };

  // For the word `sleeping`, in memory that only this process writes. `what`
  // names the bell in errors.
  // Errors: kResourceExhausted at a limit of descriptors.
  static absl::StatusOr<std::unique_ptr<Doorbell>> Create(
      SleepingWord* sleeping, std::string what,
      Barriers barriers = Barriers::kBySleeper);

  ~Doorbell();
  Doorbell(const Doorbell&) = delete;
  Doorbell& operator=(const Doorbell&) = delete;

  // Whether it fences its peers before it sleeps, so that ringers may publish
  // by release stores: the owner of the bell tells them.
  bool fences() const { return fences_; }

  // The eventfd, of which ringers get duplicates. Still owned here.
  int bell_fd() const { return bell_.get(); }

  // Waits also end when the process of `pid_fd`, which stays the caller's and
  // open, has died. `id`, which is unique, names it in outcomes. Errors: those
  // of adding to PollFd().
  absl::Status AddParticipant(uint64_t id, int pid_fd);
  // Unknown ids are ignored.
  void RemoveParticipant(uint64_t id);
  // For a descriptor that is not a pidfd, and is about to be made unreadable.
  void ClearDead(uint64_t id);

  // Waits until `ready`, a participant has died, or `deadline` passes; in this
  // order, so that a participant's publication before its death comes first. A
  // death is sticky: each later wait that is not ready reports it, until
  // RemoveParticipant(). `ready` is called often, and reads by seq_cst loads.
  // Blocks, over any number of signals; makes no system call if it becomes
  // ready while it spins. With a deadline that has passed it checks once, also
  // for deaths. Errors: poll()'s and SystemFence()'s; kFailedPrecondition.
  // Memory order: after kReady the waiter sees everything that the publisher
  //   wrote before the value that made `ready` hold.
  absl::StatusOr<WaitOutcome> Wait(absl::FunctionRef<bool()> ready,
                                   Deadline deadline);

  // --- For event loops: Arm(), wait for PollFd(), Disarm(), check. ---

  // Readable when the bell was rung or a participant has died; for epoll, poll
  // or asio. Made at the first call. Errors: kResourceExhausted.
  absl::StatusOr<int> PollFd();

  // True: `ready` does not hold, and PollFd() becomes readable once it does.
  // False: `ready` holds; it is not armed. Does not block.
  absl::StatusOr<bool> Arm(absl::FunctionRef<bool()> ready);
  // Asks for no more rings and removes those received from the descriptor. One
  // system call if it was armed. A ring may still be in flight, so a loop can
  // wake once without cause.
  void Disarm();

  // Returns a participant that has died, without waiting. Null if none.
  absl::StatusOr<const uint64_t*> FindDead();

  DoorbellCounts counts() const { return counts_; }

 private:
  struct Participant {
    uint64_t id;
    int pid_fd;
    bool dead;
  };

  Doorbell(SleepingWord* sleeping, UniqueFd bell, std::string what,
           Barriers barriers);
  bool Spin(absl::FunctionRef<bool()> ready, Deadline deadline);
  absl::StatusOr<int> Poll(bool with_bell, Deadline deadline);
  absl::Status Pause(Deadline deadline);
  void Drain();
  const Participant* Dead() const;

  absl::StatusOr<bool> FallAsleep(absl::FunctionRef<bool()> ready);

  struct Waiter;  // How it spins, and how it announces a sleep.
  const std::unique_ptr<Waiter> waiter_;
  const bool fences_;
  UniqueFd bell_;
  UniqueFd epoll_;
  std::string what_;
  std::vector<Participant> participants_;
  std::vector<pollfd> polled_;  // The bell, and then the participants.
  uint64_t empty_in_a_row_ = 0;
  DoorbellCounts counts_;
  const uint64_t fork_count_;
};

// The ringer's end of a doorbell.
// Ownership: owns the descriptor; the word's mapping is the caller's.
// Threads: one. Processes: in a forked child it does nothing.
// Trust: the sleeper may pretend to be asleep, with a new sequence each time:
//   each Ring() then costs two system calls. A sleeper that makes the
//   descriptor blocking is not rung any more; Ring() can block only if the
//   sleeper does this between these two calls, with a full counter.
class DoorbellRinger {
 public:
  DoorbellRinger() = default;

  // `sleeping` is the sleeper's word, `bell` a duplicate of its bell_fd().
  // Errors: kInvalidArgument if it is not a non-blocking eventfd.
  static absl::StatusOr<DoorbellRinger> Adopt(const SleepingWord* sleeping,
                                              UniqueFd bell);

  DoorbellRinger(DoorbellRinger&&) = default;
  DoorbellRinger& operator=(DoorbellRinger&&) = default;

  // To be called after each publication, which is a seq_cst store, or a release
  // store if the sleeper fences() and this process is fenced. Wakes the sleeper
  // if it sleeps and was not rung by this ringer for this sleep yet.
  void Ring() {
    const uint64_t sleep = LoadSleep(*sleeping_);
    if (sleep != 0) [[unlikely]]
      Wake(sleep);
  }

  uint64_t rings() const { return rings_; }

 private:
  DoorbellRinger(const SleepingWord* sleeping, UniqueFd bell);
  void Wake(uint64_t sleep);

  const SleepingWord* sleeping_ = nullptr;
  UniqueFd bell_;
  uint64_t rung_for_ = 0;  // The sleep that this end has rung for last.
  uint64_t rings_ = 0;
  uint64_t fork_count_ = 0;
};

}  // namespace tenon

#endif  // TENON_IPC_DOORBELL_DOORBELL_H_
