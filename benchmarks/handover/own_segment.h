// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// A tensor in a segment of its own, made from bytes and dropped, and its limit.

#ifndef TENON_BENCHMARKS_HANDOVER_OWN_SEGMENT_H_
#define TENON_BENCHMARKS_HANDOVER_OWN_SEGMENT_H_

#include <cstddef>
#include <memory>

#include "tenon/benchmarks/harness/subject.h"

namespace tenon::benchmarks {

// Tensor::CreateSharedFrom().
std::unique_ptr<Subject> NewOwnFromBytes(size_t size_bytes);

// The same system calls: memfd_create(), pwrite(), seals, mmap(), munmap().
std::unique_ptr<Subject> NewBarePwrite(size_t size_bytes);

}  // namespace tenon::benchmarks

#endif  // TENON_BENCHMARKS_HANDOVER_OWN_SEGMENT_H_
