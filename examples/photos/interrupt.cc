// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/examples/photos/interrupt.h"

#include <signal.h>

#include <atomic>

#include "tenon/loader/loader.h"

namespace tenon {
namespace {

std::atomic<loader::Loader*> to_cancel{nullptr};
std::atomic<int> interrupted_by{0};
static_assert(std::atomic<loader::Loader*>::is_always_lock_free);

void OnSignal(int signal) {
  interrupted_by.store(signal);
  if (loader::Loader* loader = to_cancel.load()) loader->Cancel();
}

void Handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptCancels::InterruptCancels(loader::Loader* loader) {
  to_cancel.store(loader);
  for (const int signal : {SIGINT, SIGTERM}) {
    Handle(signal, OnSignal, SA_RESETHAND | SA_RESTART);
  }
}

InterruptCancels::~InterruptCancels() {
  for (const int signal : {SIGINT, SIGTERM}) Handle(signal, SIG_DFL, 0);
  to_cancel.store(nullptr);
}

int InterruptedBy() { return interrupted_by.load(); }

}  // namespace tenon
