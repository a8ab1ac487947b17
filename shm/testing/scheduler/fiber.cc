// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/testing/scheduler/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <memory>

#include "tenon/shm/base/check.h"
#include "tenon/shm/testing/scheduler/fiber_context.h"
#include "tenon/shm/testing/scheduler/fiber_sanitizers.h"

namespace tenon {
namespace {

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Above a guard page. Page-aligned, at both ends.
char* MapStack(size_t bytes) {
  const size_t page = PageBytes();
  void* memory = mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  TENON_CHECK(memory != MAP_FAILED, "no memory for the stack of a fiber");
  TENON_CHECK(mprotect(memory, page, PROT_NONE) == 0,
              "no guard page for the stack of a fiber");
  return static_cast<char*>(memory) + page;
}

}  // namespace

struct Fiber::State {
  State(char* its_stack, size_t its_bytes)
      : stack(its_stack),
        stack_bytes(its_bytes),
        sanitizer(its_stack, its_bytes) {}

  char* const stack;  // Null: the OS thread's own.
  const size_t stack_bytes;
  FiberContext context;
  FiberSanitizer sanitizer;
  void (*entry)(void*) = nullptr;
  void* argument = nullptr;
};

Fiber::Fiber() : state_(std::make_unique<State>(nullptr, 0)) {}

Fiber::Fiber(size_t stack_bytes) {
  const size_t page = PageBytes();
  stack_bytes = (stack_bytes + page - 1) / page * page;
  state_ = std::make_unique<State>(MapStack(stack_bytes), stack_bytes);
}

Fiber::~Fiber() {
  char* const stack = state_->stack;
  const size_t bytes = state_->stack_bytes;
  state_.reset();
  if (stack != nullptr) munmap(stack - PageBytes(), bytes + PageBytes());
}

void Fiber::Prepare(void (*entry)(void*), void* argument) {
  TENON_CHECK(state_->stack != nullptr, "a fiber without its own stack");
  state_->entry = entry;
  state_->argument = argument;
  state_->sanitizer.Prepare();
  state_->context.Prepare(state_->stack, state_->stack_bytes, &Fiber::Main,
                          state_.get());
}

void Fiber::Main(void* state) {
  State& s = *static_cast<State*>(state);
  s.sanitizer.Enter();
  s.entry(s.argument);
  Abort("the entry of a fiber returned");
}

void Fiber::Switch(Fiber& to, bool for_good) {
  state_->sanitizer.Leave(to.state_->sanitizer, for_good);
  state_->context.SwitchTo(to.state_->context);
  state_->sanitizer.Return();
}

void Fiber::SwitchForGood(Fiber& to) {
  Switch(to, /*for_good=*/true);
  Abort("a fiber that was left for good runs again");
}

}  // namespace tenon
