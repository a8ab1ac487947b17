// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// The headers of this package's example, which is compiled, not run.

#ifndef TENON_SHM_TESTING_SCHEDULER_EXAMPLE_NAMES_H_
#define TENON_SHM_TESTING_SCHEDULER_EXAMPLE_NAMES_H_

#include "gtest/gtest.h"
#include "tenon/shm/testing/scheduler/explore.h"
#include "tenon/shm/testing/scheduler/schedule.h"
#include "tenon/shm/testing/scheduler/sim_atomics.h"
#include "tenon/shm/testing/scheduler/sim_var.h"
#include "tenon/shm/testing/scheduler/spsc_ring.h"

#endif  // TENON_SHM_TESTING_SCHEDULER_EXAMPLE_NAMES_H_
