// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// TensorImporterOptions: the limits of a TensorImporter (tensor_importer.h).

#ifndef TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_OPTIONS_H_
#define TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_OPTIONS_H_

#include <cstddef>
#include <cstdint>

#include "tenon/shm/base/cplusplus_20.h"
#include "tenon/shm/segment/segment.h"

namespace tenon {

struct TensorImporterOptions {
  // The total size of the storages mapped at a time. Bounds the memory that a
  // peer can make this process map and, where it is not written yet, allocate
  // by reading. Also the most bytes of one tensor, counted by elements: with
  // strides of 0 one byte of storage can represent any number of elements.
  uint64_t max_bytes = uint64_t{1} << 40;
  size_t max_storages = size_t{1} << 14;

  // Whether the descriptors given to Import() are close-on-exec already, as
  // those of a Channel are; Import() sets the flag otherwise.
  CloseOnExec close_on_exec = CloseOnExec::kSet;
};

}  // namespace tenon

#endif  // TENON_SHM_TENSOR_EXCHANGE_TENSOR_IMPORTER_OPTIONS_H_
