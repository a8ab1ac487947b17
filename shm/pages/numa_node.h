// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BindToNode: which NUMA node the memory of a file comes from.

#ifndef TENON_SHM_PAGES_NUMA_NODE_H_
#define TENON_SHM_PAGES_NUMA_NODE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon {

// Makes the unallocated pages of the file `fd` (tmpfs or hugetlbfs) come from
// `node` alone, whichever thread touches them; so call it before they are
// reserved. A size over 16 MiB fails at once if the node has less memory left,
// because the kernel would kill a process before it used another node.
// Errors: kInvalidArgument, listing the nodes, if `node` has no memory or this
// process may not use it; kResourceExhausted; kPermissionDenied in a container
// without the capability SYS_NICE; kUnimplemented if the kernel does not
// support NUMA.
absl::Status BindToNode(int fd, size_t size_bytes, int node,
                        absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_PAGES_NUMA_NODE_H_
