// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

#include "tenon/shm/pages/numa_node.h"

#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "tenon/shm/base/posix_error.h"
#include "tenon/shm/base/size_text.h"
#include "tenon/shm/base/status_macros.h"

namespace tenon {
namespace {

constexpr char kNodes[] = "/sys/devices/system/node/";
constexpr int kMostNodes = 1024;  // The maximum that a kernel can be built for.
constexpr int kBitsPerWord = sizeof(unsigned long) * CHAR_BIT;
constexpr size_t kSmall = size_t{16} << 20;

std::string NodesInWords() {
  std::ifstream file(absl::StrCat(kNodes, "has_memory"));
  std::string nodes;
  return std::getline(file, nodes) ? nodes : "unknown";
}

absl::Status NoSuchNode(int node, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("NUMA node ", node,
                   " does not exist, has no memory, or may "
                   "not be used by this process (",
                   why, "); nodes with memory: ", NodesInWords()));
}

// Free or reclaimable memory; the largest uint64_t if unknown. Lines are like
// "Node 0 MemFree:  1234 kB".
uint64_t AvailableOn(int node) {
  std::ifstream file(absl::StrCat(kNodes, "node", node, "/meminfo"));
  uint64_t available = 0;
  bool known = false;
  std::string word;
  while (file >> word) {
    if (word != "MemFree:" && word != "Active(file):" &&
        word != "Inactive(file):" && word != "SReclaimable:") {
      continue;
    }
    uint64_t kib = 0;
    if (file >> kib) available += kib * 1024;
    known = true;
  }
  return known ? available : UINT64_MAX;
}

absl::Status CheckNodeHasRoom(int node, size_t size_bytes,
                              absl::string_view what) {
  if (size_bytes <= kSmall) return absl::OkStatus();
  const uint64_t available = AvailableOn(node);
  if (size_bytes <= available) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      what, ": NUMA node ", node, " has only ", SizeText(available),
      " available (", kNodes, "node", node, "/meminfo)"));
}

absl::Status BindError(int error, int node, absl::string_view what) {
  const absl::Status status = PosixError(error, "mbind", what);
  switch (error) {
    case EINVAL:
      return NoSuchNode(node, status.message());
    case EPERM:
      return absl::PermissionDeniedError(absl::StrCat(
          status.message(), "; in a container: --cap-add SYS_NICE"));
    default:
      return status;
  }
}

}  // namespace

absl::Status BindToNode(int fd, size_t size_bytes, int node,
                        absl::string_view what) {
  if (node < 0 || node >= kMostNodes) return NoSuchNode(node, "out of range");
  TENON_RETURN_IF_ERROR(CheckNodeHasRoom(node, size_bytes, what));
  // The policy belongs to the file and stays with it; the range only selects
  // the part. Without MAP_NORESERVE hugetlbfs would reserve pages for the
  // range.
  void* range =
      mmap(nullptr, size_bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (range == MAP_FAILED) return PosixError(errno, "mmap", what);
  unsigned long nodes[kMostNodes / kBitsPerWord] = {};
  nodes[node / kBitsPerWord] = 1ul << (node % kBitsPerWord);
  // The kernel uses one bit less than the given number.
  const long result = syscall(SYS_mbind, range, size_bytes, MPOL_BIND, nodes,
                              kMostNodes + 1ul, 0u);
  const int error = result == 0 ? 0 : errno;
  munmap(range, size_bytes);
  return error == 0 ? absl::OkStatus() : BindError(error, node, what);
}

}  // namespace tenon
