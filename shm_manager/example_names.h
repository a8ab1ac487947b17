// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// Names that the examples of this package use without declaring them. Examples
// are compiled, not run: nothing here is defined.

#ifndef TENON_SHM_MANAGER_EXAMPLE_NAMES_H_
#define TENON_SHM_MANAGER_EXAMPLE_NAMES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "tenon/shm/base/deadline.h"
#include "tenon/shm/base/status_macros.h"
#include "tenon/shm/segment/segment.h"

extern const std::string manager;
extern const std::string name;
extern const std::string path;
extern const tenon::Deadline deadline;
extern const int stop_fd;

#endif  // TENON_SHM_MANAGER_EXAMPLE_NAMES_H_
