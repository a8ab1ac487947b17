// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/futures/executor.h"

#include <utility>

namespace tenon::futures {

Executor& InlineExecutor() {
  class Inline final : public Executor {
    void Execute(Task task) override { std::move(task).Run(); }
  };
  static auto& executor = *new Inline;  // Never destroyed: used at exit too.
  return executor;
}

}  // namespace tenon::futures
