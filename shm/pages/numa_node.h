// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// BindToNode: which NUMA node the memory of a file comes from.

#ifndef TENON_SHM_PAGES_NUMA_NODE_H_
#define TENON_SHM_PAGES_NUMA_NODE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace tenon {

// Lets the pages of the file `fd` (tmpfs or hugetlbfs) that are not there yet
// come from `node` alone, whichever thread touches them; so call it before they
// are reserved. More than 16 MiB are refused at once if the node has less left,
// because the kernel would rather kill a process than use another node.
// Errors: kInvalidArgument if there is no such node with memory, or this
// process may not use it, with the nodes that there are; kResourceExhausted;
// kPermissionDenied in a container without the capability SYS_NICE;
// kUnimplemented if the kernel knows no nodes.
absl::Status BindToNode(int fd, size_t size_bytes, int node,
                        absl::string_view what);

}  // namespace tenon

#endif  // TENON_SHM_PAGES_NUMA_NODE_H_
