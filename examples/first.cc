// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Two processes, one tensor: a child reads what its parent has written, in the
// same memory.

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "absl/time/clock.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/tensor/exchange/tensor_handle.h"
#include "tenon/shm/tensor/exchange/tensor_importer.h"
#include "tenon/shm/tensor/tensor.h"

using namespace tenon;  // NOLINT: a program of one file.

double MicrosecondsSince(absl::Time began) {
  return absl::ToDoubleMicroseconds(absl::Now() - began);
}

// The child: maps the tensor and reads its last element; then copies it, for
// comparison.
absl::Status Read(const TensorHandle& handle, int fd) {
  absl::Time began = absl::Now();
  TensorImporter importer;
  TENON_ASSIGN_OR_RETURN(Tensor tensor, importer.Import(handle, UniqueFd(fd)));
  TENON_ASSIGN_OR_RETURN(float* last, tensor.at<float>({-1, -1, -1, -1}));
  std::printf("process %d read %.1f from %.1f MB of process %d after %.0f us\n",
              getpid(), *last, tensor.spec().bytes() / 1e6, getppid(),
              MicrosecondsSince(began));
  began = absl::Now();
  TENON_RETURN_IF_ERROR(tensor.Clone().status());
  std::printf("a copy of it takes %.0f us\n", MicrosecondsSince(began));
  *last = 43;  // The parent's memory, too.
  return absl::OkStatus();
}

absl::Status Run() {
  TENON_ASSIGN_OR_RETURN(
      Tensor batch, Tensor::CreateShared(kDtypeOf<float>, {64, 3, 224, 224}));
  TENON_RETURN_IF_ERROR(batch.Fill(42.0f));
  TENON_ASSIGN_OR_RETURN(ExportedTensor exported, Export(batch));
  const pid_t child = fork();
  if (child == 0) return Read(exported.handle, exported.fd);
  if (int exit = 0; waitpid(child, &exit, 0) != child || exit != 0) {
    return absl::AbortedError("the child has failed");
  }
  TENON_ASSIGN_OR_RETURN(float* last, batch.at<float>({-1, -1, -1, -1}));
  std::printf("process %d reads %.1f, which the child has written\n", getpid(),
              *last);
  return absl::OkStatus();
}

int main() {
  const absl::Status status = Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
