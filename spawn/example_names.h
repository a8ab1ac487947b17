// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_SPAWN_EXAMPLE_NAMES_H_
#define TENON_SPAWN_EXAMPLE_NAMES_H_

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "tenon/futures/future.h"
#include "tenon/ipc/queue/queue.h"
#include "tenon/ipc/tensor_queue/tensor_queue.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/base/unique_fd.h"
#include "tenon/shm/tensor/tensor.h"
#include "tenon/spawn/arguments/argument.h"
#include "tenon/spawn/child/entry.h"
#include "tenon/spawn/child/function.h"
#include "tenon/spawn/child/init.h"
#include "tenon/spawn/pool/process_pool.h"
#include "tenon/spawn/pool/result_stream.h"
#include "tenon/spawn/process/processes.h"
#include "tenon/spawn/process/start.h"

// Types of the user.
struct Job {
  int64_t number;
};
class Camera {
 public:
  static absl::StatusOr<Camera> Adopt(int id, tenon::UniqueFd fd);
  int id() const;
  int fd() const;
};

absl::Status Train(int index, std::string model, std::vector<double> rates,
                   tenon::Tensor weights);
absl::StatusOr<tenon::Tensor> Decode(std::string path, int size);
absl::StatusOr<int64_t> Measure(std::string path);
void Use(int64_t size);

extern int FLAGS_v;
extern const std::vector<double> rates;
extern const tenon::Tensor weights;
extern absl::StatusOr<tenon::spawn::Processes> processes;
extern tenon::spawn::ProcessPool pool;
extern std::string prefix;
absl::StatusOr<std::optional<std::string>> NextPath();

#endif  // TENON_SPAWN_EXAMPLE_NAMES_H_
