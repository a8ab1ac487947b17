// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// WireVersion: versions of what processes share, of which each layout and each
// message has one. A process reads its own version alone; it refuses another
// one by an error that names both.

#ifndef TENON_SHM_BASE_WIRE_VERSION_H_
#define TENON_SHM_BASE_WIRE_VERSION_H_

#include <cstdint>

namespace tenon {

// 0. A test links //shm/base:next_wire_version, in which it is 1, into a
// program: so that the program is of a release with newer versions of all
// layouts and messages.
extern const uint32_t kWireVersionStep;

inline uint32_t WireVersion(uint32_t version) {
  return version + kWireVersionStep;
}

}  // namespace tenon

#endif  // TENON_SHM_BASE_WIRE_VERSION_H_
