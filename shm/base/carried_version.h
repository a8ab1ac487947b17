// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CarriedVersion: versions of messages that frames, queues and rings carry,
// which have versions of their own (wire_version.h). A receiver reads its own
// version alone; it refuses another one by an error that names both.

#ifndef TENON_SHM_BASE_CARRIED_VERSION_H_
#define TENON_SHM_BASE_CARRIED_VERSION_H_

#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"

namespace tenon {

// 0. A test links //shm/base:next_carried_version, in which it is 1, into a
// program of a release with newer messages. Separate from kWireVersionStep: a
// newer carrier is refused before its message is read.
extern const uint32_t kCarriedVersionStep;

inline uint32_t CarriedVersion(uint32_t version) {
  return version + kCarriedVersionStep;
}

}  // namespace tenon

#endif  // TENON_SHM_BASE_CARRIED_VERSION_H_
