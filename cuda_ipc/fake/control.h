// SPDX-FileCopyrightText: 2026 The Tenon Authors
// SPDX-License-Identifier: Apache-2.0

// What the fake driver tells tests, and what they set: a table that it exports
// beside libcuda's functions. Tests use it through fake_driver.h.

#ifndef TENON_CUDA_IPC_FAKE_CONTROL_H_
#define TENON_CUDA_IPC_FAKE_CONTROL_H_

#include <cstddef>
#include <cstdint>

namespace tenon::cuda_ipc::fake {

struct Control {
  // Forgets all, as in a new process, with these settings. Not while another
  // thread calls the driver.
  void (*reset)(const char* settings);
  // Calls of an entry ("cuMemAlloc_v2") since then; of all if it is null.
  uint64_t (*calls)(const char* entry);
  // The nth call of the entry from now on fails with this error; each one if
  // nth is 0. The error 0 ends it.
  void (*fail)(const char* entry, uint64_t nth, int error);
  // The errors that cuda.h documents for the entry; returns how many there are,
  // and writes as many as fit.
  size_t (*errors)(const char* entry, int* errors, size_t size);
  // Lines about what this process has not given back, as many as fit; returns
  // their number.
  size_t (*leaks)(char* text, size_t size);
  // Bytes that processes of this machine hold of a device.
  uint64_t (*held_bytes)(int device);
};

extern "C" const Control* TenonFakeCudaControl();

}  // namespace tenon::cuda_ipc::fake

#endif  // TENON_CUDA_IPC_FAKE_CONTROL_H_
