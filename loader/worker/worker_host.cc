// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/loader/worker/worker_host.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tenon/ipc/channel/channel.h"
#include "tenon/loader/data/dataset_registry.h"
#include "tenon/loader/worker/messages.h"
#include "tenon/loader/worker/run_worker.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/read_file.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/spawn/process/process.h"
#include "tenon/spawn/settings/process_options.h"

namespace tenon::loader {
namespace {

class WorkerProcess : public WorkerHost {
 public:
  explicit WorkerProcess(spawn::Process process)
      : process_(std::move(process)) {}

  std::string Describe() const override { return process_.Describe(); }
  pid_t pid() const override { return process_.pid(); }
  int end_fd() const override { return process_.end_fd(); }
  absl::Status Join(Deadline deadline) override {
    return process_.Join(deadline);
  }
  void Signal(int signal) override { process_.Signal(signal).IgnoreError(); }

 private:
  spawn::Process process_;
};

class WorkerThread : public WorkerHost {
 public:
  static absl::StatusOr<std::unique_ptr<WorkerThread>> Start(
      int index, Channel end, const WorkerSetup& setup,
      const DatasetRecipe& recipe, const WorkerControl& control,
      WorkerNote& note) {
    UniqueFd ended(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!ended.valid())
      return PosixError(errno, "eventfd", "a loader's thread");
    auto thread = std::unique_ptr<WorkerThread>(
        new WorkerThread(index, std::move(ended)));
    try {
      thread->thread_ = std::thread(
          &WorkerThread::Run, thread.get(), std::move(end), std::cref(setup),
          std::cref(recipe), std::cref(control), std::ref(note));
    } catch (const std::system_error& error) {
      return PosixError(error.code().value(), "std::thread",
                        thread->Describe());
    }
    return thread;
  }

  ~WorkerThread() override {
    if (thread_.joinable()) thread_.join();
  }

  std::string Describe() const override {
    return absl::StrCat("worker ", index_, " (thread)");
  }
  pid_t pid() const override { return 0; }
  int end_fd() const override { return ended_.get(); }

  absl::Status Join(Deadline deadline) override {
    pollfd ended = {.fd = ended_.get(), .events = POLLIN, .revents = 0};
    TENON_ASSIGN_OR_RETURN(const int ready, PollUntil({&ended, 1}, deadline));
    if (ready == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(Describe(), " still runs"));
    }
    if (thread_.joinable()) thread_.join();
    if (status_.ok()) return absl::OkStatus();
    return absl::Status(status_.code(),
                        absl::StrCat(Describe(), ": ", status_.message()));
  }

  void Signal(int /*signal*/) override {}

 private:
  WorkerThread(int index, UniqueFd ended)
      : index_(index), ended_(std::move(ended)) {}

  void Run(Channel end, const WorkerSetup& setup, const DatasetRecipe& recipe,
           const WorkerControl& control, WorkerNote& note) {
    pthread_setname_np(pthread_self(), absl::StrCat("loader-", index_).c_str());
    status_ = RunWorker(index_, setup, recipe, std::move(end), control, note);
    eventfd_write(ended_.get(), 1);
  }

  const int index_;
  UniqueFd ended_;
  absl::Status status_;  // Final once ended_ is readable.
  std::thread thread_;
};

// Empty if there is none, as for pid 0.
std::string ReadProc(pid_t pid, absl::string_view file) {
  return ReadFile(absl::StrCat("/proc/", pid, "/", file)).value_or("");
}

}  // namespace

bool WorkerHost::IsHeld() const {
  const std::string status = ReadProc(pid(), "status");
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (absl::StartsWith(line, "State:\tT") ||
        absl::StartsWith(line, "State:\tt")) {
      return true;
    }
    int tracer = 0;
    if (absl::ConsumePrefix(&line, "TracerPid:") &&
        absl::SimpleAtoi(line, &tracer)) {
      return tracer != 0;
    }
  }
  return false;
}

std::string WorkerHost::WaitsIn() const {
  std::string where = ReadProc(pid(), "wchan");
  return where == "0" ? "" : where;
}

int64_t WorkerHost::PrivateBytes() const {
  const std::string statm = ReadProc(pid(), "statm");
  const std::vector<absl::string_view> pages = absl::StrSplit(statm, ' ');
  int64_t resident = 0;
  int64_t shared = 0;
  if (pages.size() < 3 || !absl::SimpleAtoi(pages[1], &resident) ||
      !absl::SimpleAtoi(pages[2], &shared)) {
    return 0;
  }
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

absl::Status StartWorkerProcesses(
    // Closed on return, so that a channel closes with its worker.
    // NOLINTNEXTLINE(performance-unnecessary-value-param)
    std::vector<WorkerEnd> ends, const WorkerSetup& setup,
    const DatasetRecipe& recipe, const WorkerProcessOptions& how,
    const Segment& control, std::vector<std::unique_ptr<WorkerHost>>& hosts) {
  std::vector<std::vector<int>> fds;
  for (const WorkerEnd& end : ends) {
    fds.push_back({end.channel.fd(), control.fd(), end.note.fd()});
    for (const int fd : recipe.fds()) fds.back().push_back(fd);
  }
  spawn::ProcessOptions options = {.entry = "tenon.loader.worker",
                                   .program = how.program,
                                   .index = how.first,
                                   .argument = Encode(setup),
                                   .ignore_interrupt = true,
                                   .method = how.method,
                                   .crash_stack = how.crash_stack};
  TENON_ASSIGN_OR_RETURN(std::vector<spawn::Process> processes,
                         spawn::Process::StartEach(options, fds));
  for (spawn::Process& process : processes) {
    hosts.push_back(std::make_unique<WorkerProcess>(std::move(process)));
  }
  return absl::OkStatus();
}

absl::Status StartWorkerThreads(
    std::vector<WorkerEnd> ends, const WorkerSetup& setup,
    const DatasetRecipe& recipe, const WorkerControl& control,
    const std::vector<WorkerNote*>& notes,
    std::vector<std::unique_ptr<WorkerHost>>& hosts) {
  for (size_t i = 0; i < ends.size(); ++i) {
    TENON_ASSIGN_OR_RETURN(
        hosts.emplace_back(),
        WorkerThread::Start(static_cast<int>(i), std::move(ends[i].channel),
                            setup, recipe, control, *notes[i]));
  }
  return absl::OkStatus();
}

}  // namespace tenon::loader
