// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// DLManagedTensorVersioned for headers of DLPack that do not declare it.
//
// DLPack 1.0 added a second way to hand over a tensor, with a version and
// flags; Debian 12's header is of 0.6. These declarations have the layout and
// the names of 1.0, and are used only if the installed header lacks them.

#ifndef TENON_THIRD_PARTY_DLPACK_DLPACK_VERSIONED_H_
#define TENON_THIRD_PARTY_DLPACK_DLPACK_VERSIONED_H_

#include "dlpack/dlpack.h"

#ifndef DLPACK_MAJOR_VERSION  // Added by 1.0 as well.

#include <stdint.h>

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0

// The memory must not be written to.
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)

#ifdef __cplusplus
extern "C" {
#endif

// Structs of another major version have another layout, except that all fields
// up to the flags stay the same.
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  // The producer's own.
  void* manager_ctx;
  // Called once by the consumer when it is done with the tensor; frees the
  // struct as well. May be null.
  void (*deleter)(struct DLManagedTensorVersioned* self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // DLPACK_MAJOR_VERSION

#endif  // TENON_THIRD_PARTY_DLPACK_DLPACK_VERSIONED_H_
