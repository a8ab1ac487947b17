// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Torch: a process of the real torch that a test controls. The Python that has
// it: $TENON_TORCH_PYTHON, or python3. A test that uses it has
// //shm_manager:testdata/torch_peer.py in its data.

#ifndef TENON_SHM_MANAGER_TORCH_PROCESS_H_
#define TENON_SHM_MANAGER_TORCH_PROCESS_H_

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/unique_fd.h"

namespace tenon {

inline constexpr char kTorchPeer[] = "shm_manager/testdata/torch_peer.py";

inline std::string TorchPython() {
  const char* const python = getenv("TENON_TORCH_PYTHON");
  return python == nullptr ? "python3" : python;
}

// A process of torch; killed with this object.
class Torch {
 public:
  Torch() {
    int in[2];
    int out[2];
    EXPECT_EQ(pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(in[0], STDIN_FILENO);
      dup2(out[1], STDOUT_FILENO);
      const std::string python = TorchPython();
      execlp(python.c_str(), python.c_str(), kTorchPeer, nullptr);
      _exit(127);
    }
    close(in[0]);
    close(out[1]);
    in_.Reset(in[1]);
    out_ = fdopen(out[0], "r");
    version_ = Line();
  }
  ~Torch() {
    Kill();
    fclose(out_);
  }
  Torch(const Torch&) = delete;
  Torch& operator=(const Torch&) = delete;

  // "torch 2.15.0", or another text if it cannot be imported.
  const std::string& version() const { return version_; }
  pid_t pid() const { return pid_; }

  // Runs a statement; its answer.
  std::string Run(absl::string_view statement) {
    const std::string line = absl::StrCat(statement, "\n");
    EXPECT_EQ(write(in_.get(), line.data(), line.size()),
              static_cast<ssize_t>(line.size()));
    std::string answer = Line();
    absl::string_view plain = answer;
    // Of a text.
    if (absl::ConsumePrefix(&plain, "'")) absl::ConsumeSuffix(&plain, "'");
    return std::string(plain);
  }

  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  // Ends by itself, as its input ends. Its exit status.
  int End() {
    in_.Reset();
    int status = -1;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

 private:
  std::string Line() {
    char line[4096];
    if (fgets(line, sizeof(line), out_) == nullptr) return "(ended)";
    return std::string(absl::StripSuffix(line, "\n"));
  }

  pid_t pid_ = -1;
  UniqueFd in_;
  FILE* out_ = nullptr;
  std::string version_;
};

// Why there is no torch; empty if there is, whose version is printed then.
inline std::string TorchProblem() {
  static const std::string* const version = new std::string(Torch().version());
  if (!version->starts_with("torch ")) {
    return TorchPython() +
           " cannot import torch; install it, or name a Python that has it in "
           "TENON_TORCH_PYTHON";
  }
  std::cout << TorchPython() << ": " << *version << "\n" << std::flush;
  return "";
}

}  // namespace tenon

#endif  // TENON_SHM_MANAGER_TORCH_PROCESS_H_
