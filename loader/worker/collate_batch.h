// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// CollateBatch: the tensors of a batch whose samples differ in shape.

#ifndef TENON_LOADER_WORKER_COLLATE_BATCH_H_
#define TENON_LOADER_WORKER_COLLATE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "tenon/loader/data/batch_layout.h"
#include "tenon/loader/data/collation.h"
#include "tenon/loader/data/dataset.h"
#include "tenon/loader/data/sample_scratch.h"

namespace tenon::loader {

// Completes a batch of `samples` samples in `memory` by what differs in shape,
// which is in `scratch`. Calls `grow` if it needs more memory than that.
// No effect for a layout in which nothing differs. Returns the bytes of the
// batch.
// Errors: Dataset::Collate()'s; Collation::Finish()'s.
absl::StatusOr<size_t> CollateBatch(Dataset& dataset, const BatchLayout& layout,
                                    const SampleScratch& scratch,
                                    int64_t samples,
                                    std::span<std::byte> memory,
                                    Collation::Grow grow);

// The bytes of the block to allocate next, after one of `block` for a batch
// that needed `batch`: a quarter more than a batch that was larger, so that few
// of the next ones grow; after smaller ones slowly less, so that a single large
// one does not make all later blocks as large.
size_t NextBlockBytes(size_t block, size_t batch);

}  // namespace tenon::loader

#endif  // TENON_LOADER_WORKER_COLLATE_BATCH_H_
