// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/benchmarks/harness/peer_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "tenon/benchmarks/harness/subject.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon::benchmarks {
namespace {

// A started program, and the lines that it exchanges.
class Program {
 public:
  static absl::StatusOr<std::unique_ptr<Program>> Start(
      const std::vector<std::string>& command) {
    std::array<int, 2> ends;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
      return absl::ErrnoToStatus(errno, "socketpair()");
    }
    UniqueFd ours(ends[0]);
    const UniqueFd theirs(ends[1]);
    std::vector<char*> argv;
    for (const std::string& argument : command) {
      argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDOUT_FILENO);
    pid_t pid;
    const int error =
        posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return absl::ErrnoToStatus(error, "it does not start");
    return std::unique_ptr<Program>(new Program(std::move(ours), pid));
  }

  // The end of its input; it is killed if it does not end by itself.
  ~Program() {
    socket_.Reset();
    const Deadline end = Deadline::After(absl::Seconds(5));
    while (waitpid(pid_, nullptr, WNOHANG) == 0) {
      if (end.has_passed()) kill(pid_, SIGKILL);
      usleep(1000);
    }
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // True if it was written.
  bool Write(const std::string& line) {
    return send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(line.size());
  }

  absl::StatusOr<std::string> ReadLine(Deadline deadline) {
    std::string line;
    for (;;) {
      if (deadline.has_passed()) {
        return absl::DeadlineExceededError("it does not answer");
      }
      pollfd polled = {socket_.get(), POLLIN, 0};
      if (poll(&polled, 1, 100) <= 0) continue;
      char next;
      if (read(socket_.get(), &next, 1) != 1) {
        return absl::UnavailableError("it has ended");
      }
      if (next == '\n') return line;
      line += next;
    }
  }

 private:
  Program(UniqueFd socket, pid_t pid) : socket_(std::move(socket)), pid_(pid) {}

  UniqueFd socket_;
  const pid_t pid_;
};

class PeerProgram : public Subject {
 public:
  PeerProgram(std::unique_ptr<Program> program, absl::Duration patience)
      : program_(std::move(program)), patience_(patience) {}

  void Ask(int count) override {
    ns_ = NAN;
    const absl::Status asked = TryToAsk(count);
    if (!asked.ok()) failure_ = std::string(asked.message());
  }
  double CostOf(double) const override { return ns_; }
  std::string failure() const override { return failure_; }

 private:
  absl::Status TryToAsk(int count) {
    if (!program_->Write(absl::StrCat("turn ", count, "\n"))) {
      return absl::UnavailableError("it has ended");
    }
    TENON_ASSIGN_OR_RETURN(const std::string line,
                           program_->ReadLine(Deadline::After(patience_)));
    absl::string_view number = line;
    double ns;
    if (!absl::ConsumePrefix(&number, "ns ") ||
        !absl::SimpleAtod(number, &ns) || !(ns > 0)) {
      return absl::DataLossError(absl::StrCat("it answers '", line, "'"));
    }
    ns_ = ns * count;
    return absl::OkStatus();
  }

  const std::unique_ptr<Program> program_;
  const absl::Duration patience_;
  double ns_ = NAN;
  std::string failure_;
};

absl::StatusOr<std::unique_ptr<Subject>> StartPeer(const std::string& path,
                                                   const std::string& row,
                                                   const PeerPlace& place) {
  TENON_ASSIGN_OR_RETURN(
      auto program, Program::Start({path, absl::StrCat("--row=", row),
                                    absl::StrCat("--cores=", place.cores[0],
                                                 ",", place.cores[1])}));
  TENON_ASSIGN_OR_RETURN(const std::string line,
                         program->ReadLine(Deadline::After(place.patience)));
  absl::string_view rest = line;
  if (absl::ConsumePrefix(&rest, "unsupported ")) {
    return absl::UnimplementedError(rest);
  }
  if (!absl::StartsWith(line, "ready ")) {
    return absl::DataLossError(absl::StrCat("it answers '", line, "'"));
  }
  return std::make_unique<PeerProgram>(std::move(program), place.patience);
}

}  // namespace

NamedSubject FindPeer(const std::string& name, const std::string& row,
                      const PeerPlace& place) {
  NamedSubject peer = {.name = name};
  const std::string path = absl::StrCat(place.folder, "/bin/", name);
  if (place.folder.empty()) {
    peer.missing = "no folder of peers: run tools/install_peers";
  } else if (access(path.c_str(), X_OK) != 0) {
    peer.missing =
        absl::StrCat("there is no program ", path, ": see tools/install_peers");
  } else if (auto started = StartPeer(path, row, place); started.ok()) {
    peer.subject = *std::move(started);
  } else {
    // What it does not do needs no path to look at.
    peer.missing =
        absl::StrCat(absl::IsUnimplemented(started.status()) ? "" : path + ": ",
                     started.status().message());
  }
  return peer;
}

}  // namespace tenon::benchmarks
