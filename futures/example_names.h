// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_FUTURES_EXAMPLE_NAMES_H_
#define TENON_FUTURES_EXAMPLE_NAMES_H_

#include <chrono>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tenon/futures/executor.h"
#include "tenon/futures/future.h"
#include "tenon/futures/thread_pool.h"
#include "tenon/shm/base/status_macros.h"

// Types of the user.
struct Batch {};
struct Image {};
struct EventLoop {
  void Post(tenon::futures::Task task);
};
struct Socket {
  void ReceiveAnswer(std::chrono::steady_clock::time_point deadline);
};

Image Load(const std::string& path);
std::string Read(const std::string& path);
Image Decode(absl::StatusOr<std::string> bytes);
int Expensive();

extern const std::unique_ptr<tenon::futures::ThreadPool> pool;
extern const std::shared_ptr<Socket> socket;
extern const std::vector<std::string> paths;
extern tenon::futures::Future<std::string> bytes;
extern std::vector<tenon::futures::Future<Batch>> batches;

#endif  // TENON_FUTURES_EXAMPLE_NAMES_H_
