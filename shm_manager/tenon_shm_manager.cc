// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// tenon_shm_manager: the daemon of names (manager.h). ManagerClient starts it;
// by hand:
//
//   tenon_shm_manager --group=training --idle_exit=1m --minloglevel=0
//
// With --torch_path it also serves processes of torch, in place of their
// torch_shm_manager. Under systemd it serves the socket that it inherits
// (LISTEN_FDS); see docs/shm_manager.md.
//
// Logs through glog: problems to stderr, with --minloglevel=0 also each name
// that is removed; with --log_dir to files there (log_flags.h, or GLOG_log_dir
// and so on). Of a detached daemon only the files are seen.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "glog/logging.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/retry_on_eintr.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/process/keeper.h"
#include "tenon/shm_manager/log_flags.h"
#include "tenon/shm_manager/manager.h"
#include "tenon/shm_manager/manager_client.h"

ABSL_FLAG(std::string, path, "", "the socket; empty: that of --group");
ABSL_FLAG(std::string, group, "default", "the group of processes it serves");
ABSL_FLAG(absl::Duration, idle_exit, absl::Seconds(10),
          "exits so long after its last client");
ABSL_FLAG(bool, detach, false,
          "returns once a daemon in a session of its own listens");
ABSL_FLAG(size_t, max_clients, tenon::ManagerOptions().max_clients,
          "the most connections of clients; beside them as many of torch");
ABSL_FLAG(size_t, max_clients_per_process,
          tenon::ManagerOptions().max_clients_per_process,
          "of these, connections of one process");
ABSL_FLAG(size_t, max_kept_names, tenon::ManagerOptions().max_kept_names,
          "the most names in flight");
ABSL_FLAG(size_t, max_kept_names_per_client,
          tenon::ManagerOptions().max_kept_names_per_client,
          "of these, asked for by one client");
ABSL_FLAG(absl::Duration, keep_after_death,
          tenon::ManagerOptions().keep_after_death,
          "drops names in flight so long after the end of their sender");
ABSL_FLAG(uint64_t, max_kept_bytes, tenon::ManagerOptions().max_kept_bytes,
          "the sum of the sizes of kept segments");
ABSL_FLAG(std::string, torch_path, "",
          "a second socket, which processes of torch take for that of their "
          "torch_shm_manager; empty: none");
ABSL_FLAG(size_t, max_torch_names, tenon::ManagerOptions().max_torch_names,
          "the most names that torch has registered");
ABSL_FLAG(size_t, max_torch_names_per_process,
          tenon::ManagerOptions().max_torch_names_per_process,
          "of these, by one process");

namespace tenon {
namespace {

// Descriptors of the standard library, of the log, and of calls in progress.
constexpr size_t kOtherFds = 64;

// For a daemon that has won the race to start one, and its second socket.
constexpr absl::Duration kRivalPatience = absl::Seconds(1);
constexpr absl::Duration kRivalPause = absl::Milliseconds(2);

// The first socket of sd_listen_fds(3).
constexpr int kActivationFd = 3;

// The number of sockets that this process was activated with; -1: it was not.
// The variables are for this process, and not for a child that it forks.
int TakeActivationSockets() {
  const char* const pid = getenv("LISTEN_PID");
  const char* const count = getenv("LISTEN_FDS");
  int for_pid = 0;
  int sockets = -1;
  if (pid == nullptr || count == nullptr || !absl::SimpleAtoi(pid, &for_pid) ||
      for_pid != getpid() || !absl::SimpleAtoi(count, &sockets)) {
    sockets = -1;
  }
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) {
    unsetenv(name);
  }
  return sockets;
}

// So that no descriptor of the daemon is taken for its input, output or errors.
void OpenStandardFds() {
  int fd = open("/dev/null", O_RDWR);
  while (fd >= 0 && fd <= STDERR_FILENO) fd = open("/dev/null", O_RDWR);
  if (fd > STDERR_FILENO) close(fd);
}

// Before Linux 5.9, or where a filter rejects close_range().
void CloseListed(int first) {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) return;
  std::vector<int> fds;
  while (const dirent* const entry = readdir(directory)) {
    int fd = -1;
    if (absl::SimpleAtoi(entry->d_name, &fd) && fd >= first &&
        fd != dirfd(directory)) {
      fds.push_back(fd);
    }
  }
  closedir(directory);
  for (const int fd : fds) close(fd);
}

// Other processes' descriptors would live as long as the daemon.
void CloseInherited(int sockets) {
  const int first = STDERR_FILENO + 1 + (sockets == 1 ? 1 : 0);
  if (syscall(SYS_close_range, first, ~0U, 0) != 0) CloseListed(first);
}

void ForgetTerminal() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return;
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) dup2(null, fd);
  if (null > STDERR_FILENO) close(null);
}

void LogLine(LogKind kind, const std::string& line) {
  if (kind == LogKind::kProblem) {
    LOG(WARNING) << line;
  } else {
    LOG(INFO) << line;
  }
}

// Connects with a socket of the other kind: the kernel refuses that, and says
// whether any listens. `kind`: of the listener.
bool IsListening(const std::string& path, int kind) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  path.copy(address.sun_path, path.size());
  const int other = kind == SOCK_STREAM ? SOCK_SEQPACKET : SOCK_STREAM;
  const UniqueFd probe(socket(AF_UNIX, other | SOCK_CLOEXEC, 0));
  return probe.valid() &&
         connect(probe.get(), reinterpret_cast<sockaddr*>(&address),
                 sizeof(address)) != 0 &&
         errno == EPROTOTYPE;
}

// `rival`: of Listen(), another daemon listens at a path already. A starter
// without --detach gets it. Detached, the other one has won a race, which is as
// good if it serves all paths, some moments later.
absl::Status CheckRival(const absl::Status& rival, const std::string& path) {
  const std::string torch_path = absl::GetFlag(FLAGS_torch_path);
  if (torch_path.empty()) return rival;
  const Deadline deadline = Deadline::After(kRivalPatience);
  while (!IsListening(path, SOCK_SEQPACKET) ||
         !IsListening(torch_path, SOCK_STREAM)) {
    if (deadline.has_passed()) {
      return absl::FailedPreconditionError(absl::StrCat(
          rival.message(), ", and no daemon serves both --path=", path,
          " and --torch_path=", torch_path, "; end it, or choose other paths"));
    }
    absl::SleepFor(kRivalPause);
  }
  return rival;
}

// Quotas that exceed the limit of descriptors are lowered: the reason of a
// refusal is clearer than that of a failed call.
ManagerOptions OptionsOf() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  getrlimit(RLIMIT_NOFILE, &limit);
  const size_t fds = std::max<size_t>(limit.rlim_cur, 2 * kOtherFds);
  const std::string torch_path = absl::GetFlag(FLAGS_torch_path);
  // Three for each client and one for each kept name; two for each of torch.
  const size_t share = (fds - kOtherFds) / (torch_path.empty() ? 4 : 6);
  return {
      .idle_exit = absl::GetFlag(FLAGS_idle_exit),
      .max_clients = std::min(absl::GetFlag(FLAGS_max_clients), share),
      .max_clients_per_process = absl::GetFlag(FLAGS_max_clients_per_process),
      .max_kept_names = std::min(absl::GetFlag(FLAGS_max_kept_names), share),
      .max_kept_names_per_client =
          absl::GetFlag(FLAGS_max_kept_names_per_client),
      .keep_after_death = absl::GetFlag(FLAGS_keep_after_death),
      .max_kept_bytes = absl::GetFlag(FLAGS_max_kept_bytes),
      .torch_path = torch_path,
      .max_torch_names = absl::GetFlag(FLAGS_max_torch_names),
      .max_torch_names_per_process =
          absl::GetFlag(FLAGS_max_torch_names_per_process),
      .log = LogLine};
}

absl::StatusOr<UniqueFd> StopFd() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  if (sigprocmask(SIG_BLOCK, &signals, nullptr) != 0) {
    return PosixError(errno, "sigprocmask", "SIGTERM and SIGINT");
  }
  UniqueFd fd(signalfd(-1, &signals, SFD_CLOEXEC));
  if (!fd.valid()) return PosixError(errno, "signalfd", "");
  return fd;
}

void ReportReady(UniqueFd* ready, char code) {
  RetryOnEintr([&] { return write(ready->get(), &code, 1); });
  ready->Reset();
}

absl::StatusOr<std::unique_ptr<Manager>> Listen(int sockets) {
  if (sockets == 1) {
    return Manager::CreateOn(UniqueFd(kActivationFd), OptionsOf());
  }
  if (sockets >= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("LISTEN_FDS is ", sockets,
                     "; want 1 socket (systemd: ListenSequentialPacket=)"));
  }
  std::string path = absl::GetFlag(FLAGS_path);
  if (path.empty()) {
    TENON_ASSIGN_OR_RETURN(path, ManagerPath(absl::GetFlag(FLAGS_group)));
    TENON_RETURN_IF_ERROR(MakeManagerFolder(path));
  }
  auto manager = Manager::Create(path, OptionsOf());
  if (!absl::IsAlreadyExists(manager.status())) return manager;
  return CheckRival(manager.status(), path);
}

// `ready`: of Detach(); invalid if it was not called.
absl::Status RunDaemon(UniqueFd* ready, int sockets) {
  TENON_ASSIGN_OR_RETURN(const UniqueFd stop, StopFd());
  TENON_ASSIGN_OR_RETURN(const std::unique_ptr<Manager> manager,
                         Listen(sockets));
  if (ready->valid()) {
    // It keeps no file system busy, and no terminal.
    if (chdir("/") != 0) return PosixError(errno, "chdir", "/");
    ForgetTerminal();
    ReportReady(ready, 0);
  }
  return manager->Run(stop.get());
}

// The exit code for a daemon that has ended without a report: 0 if it was
// killed, after which its starter tries again, else 1.
char CodeOf(pid_t daemon) {
  int status = 0;
  if (RetryOnEintr([&] { return waitpid(daemon, &status, 0); }) != daemon) {
    return 0;
  }
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return 0;
  if (WIFSIGNALED(status)) {
    LOG(ERROR) << "the daemon was killed by signal " << WTERMSIG(status);
  }
  return 1;
}

// Returns in a child in a session of its own, which outlives all supervisors of
// its starter. The parent exits with the code that the child reports.
absl::StatusOr<UniqueFd> Detach() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return PosixError(errno, "pipe2", "");
  const UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return PosixError(errno, "fork", "the daemon");
  if (pid == 0) {
    setsid();
    TENON_RETURN_IF_ERROR(BecomeKeeper());
    return writer;
  }
  writer.Reset();
  char code = 0;
  if (RetryOnEintr([&] { return read(reader.get(), &code, 1); }) != 1) {
    code = CodeOf(pid);
  }
  _exit(code);
}

int Main(bool detach, int sockets) {
  absl::StatusOr<UniqueFd> ready = UniqueFd();
  if (detach && sockets >= 0) {
    ready = absl::InvalidArgumentError(
        "--detach with a socket of LISTEN_FDS; a daemon that is activated runs "
        "in the foreground");
  } else if (detach) {
    ready = Detach();
  }
  const absl::Status status =
      ready.ok() ? RunDaemon(&*ready, sockets) : ready.status();
  // Detached, another process has won the race to start one.
  const bool failed =
      !status.ok() && !(detach && absl::IsAlreadyExists(status));
  if (failed) LOG(ERROR) << status.message();
  if (ready.ok() && ready->valid()) ReportReady(&*ready, failed ? 1 : 0);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace tenon

int main(int argc, char** argv) {
  tenon::OpenStandardFds();
  const int sockets = tenon::TakeActivationSockets();
  tenon::CloseInherited(sockets);
  umask(0077);
  signal(SIGPIPE, SIG_IGN);  // The reader of stderr may have ended.
  std::vector<std::string> words(argv + 1, argv + argc);
  const absl::Status log = tenon::InitLog(argv[0], &words);
  if (!log.ok()) {
    std::cerr << argv[0] << ": " << log.message() << "\n";
    return 1;
  }
  absl::SetProgramUsageMessage(
      "removes names in /dev/shm at once when their holders die; exits some "
      "time after its last client. Also the flags of glog: --v, --minloglevel, "
      "--log_dir, ...");
  std::vector<char*> others = {argv[0]};
  for (std::string& word : words) others.push_back(word.data());
  absl::ParseCommandLine(static_cast<int>(others.size()), others.data());
  return tenon::Main(absl::GetFlag(FLAGS_detach), sockets);
}
