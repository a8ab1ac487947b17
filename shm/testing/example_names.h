// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_SHM_TESTING_EXAMPLE_NAMES_H_
#define TENON_SHM_TESTING_EXAMPLE_NAMES_H_

#include <cerrno>
#include <cstdint>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tenon/shm/base/crash_point.h"
#include "tenon/shm/segment/segment.h"
#include "tenon/shm/testing/kill/kill_driver.h"
#include "tenon/shm/testing/kill/peer.h"
#include "tenon/shm/testing/reporter.h"
#include "tenon/shm/testing/shared_object.h"
#include "tenon/shm/testing/status_matchers.h"
#include "tenon/shm/testing/trace/region.h"
#include "tenon/shm/testing/trace/single_stepper.h"
#include "tenon/shm/testing/trace/syscall_failer.h"

#endif  // TENON_SHM_TESTING_EXAMPLE_NAMES_H_
