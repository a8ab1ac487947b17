// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The half of the crash record that runs in the dying child. In the handler:
// only calls that signal-safety(7) lists, and the unwinder, which since glibc
// 2.35 and gcc 12 takes no lock (_dl_find_object()).

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "tenon/shm/base/monotonic_ns.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/report/crash_layout.h"
#include "tenon/spawn/report/crash_record.h"

namespace tenon::spawn {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                            SIGABRT, SIGTRAP, SIGSYS};
constexpr size_t kStackBytes = 128 * 1024;

std::atomic<int> record_fd{-1};
std::atomic<bool> has_crashed{false};

struct Frames {
  uint64_t addresses[kMaxCrashFrames];
  uint32_t count = 0;
};

_Unwind_Reason_Code NoteFrame(_Unwind_Context* context, void* argument) {
  Frames& frames = *static_cast<Frames*>(argument);
  if (frames.count == kMaxCrashFrames) return _URC_END_OF_STACK;
  const uint64_t address = _Unwind_GetIP(context);
  if (address == 0) return _URC_END_OF_STACK;
  frames.addresses[frames.count++] = address;
  return _URC_NO_REASON;
}

void WriteAll(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = write(fd, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    at += written;
    size -= static_cast<size_t>(written);
  }
}

void CopyMaps(int to) {
  const int from = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (from < 0) return;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(from, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    WriteAll(to, buffer, static_cast<size_t>(got));
  }
  close(from);
}

void WriteRecord(int fd, int signal, const siginfo_t& info) {
  Frames frames;
  _Unwind_Backtrace(NoteFrame, &frames);
  CrashHeader header;
  header.signal = signal;
  header.time_ns = MonotonicNs();
  header.fault_address = reinterpret_cast<uintptr_t>(info.si_addr);
  header.frames = frames.count;
  WriteAll(fd, &header, sizeof(header));
  WriteAll(fd, frames.addresses, frames.count * sizeof(uint64_t));
  CopyMaps(fd);
}

// Not by SA_RESETHAND, with which the second thread to fault would end the
// process before the first has written its record. A fault in the handler ends
// the process at once: the signal is blocked meanwhile.
void RestoreDefault(int signal) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

void OnCrash(int signal, siginfo_t* info, void*) {
  const int error = errno;
  // One thread writes; another thread that crashes meanwhile waits to die with
  // it.
  if (!has_crashed.exchange(true)) {
    WriteRecord(record_fd.load(), signal, *info);
  } else {
    const timespec a_while = {.tv_sec = 1, .tv_nsec = 0};
    nanosleep(&a_while, nullptr);
  }
  RestoreDefault(signal);
  errno = error;
  // A fault recurs by itself on return; a signal that was sent does not.
  raise(signal);
}

}  // namespace

absl::Status RecordCrashes(UniqueFd fd) {
  record_fd = fd.Release();
  // On its first use the unwinder allocates and loads.
  Frames frames;
  _Unwind_Backtrace(NoteFrame, &frames);
  void* const memory = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return PosixError(errno, "mmap", "crash stack");
  const stack_t stack = {
      .ss_sp = memory, .ss_flags = 0, .ss_size = kStackBytes};
  if (sigaltstack(&stack, nullptr) != 0) {
    return PosixError(errno, "sigaltstack", "crash stack");
  }
  for (const int signal : kSignals) {
    struct sigaction action = {};
    action.sa_sigaction = OnCrash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    if (sigaction(signal, &action, nullptr) != 0) {
      return PosixError(errno, "sigaction", "crash record");
    }
  }
  return absl::OkStatus();
}

}  // namespace tenon::spawn
