// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// InterruptCancels: Ctrl-C and SIGTERM end a loader in an orderly way.

#ifndef TENON_EXAMPLES_PHOTOS_INTERRUPT_H_
#define TENON_EXAMPLES_PHOTOS_INTERRUPT_H_

#include "tenon/loader/loader.h"

namespace tenon {

// While one exists, the first SIGINT or SIGTERM cancels `loader`, which must
// outlive it; the second one has its usual effect. One at a time per process.
class InterruptCancels {
 public:
  explicit InterruptCancels(loader::Loader* loader);
  ~InterruptCancels();
  InterruptCancels(const InterruptCancels&) = delete;
  InterruptCancels& operator=(const InterruptCancels&) = delete;
};

// The signal received since the start of the program; 0 if none.
int InterruptedBy();

}  // namespace tenon

#endif  // TENON_EXAMPLES_PHOTOS_INTERRUPT_H_
