# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""Named memory: run it twice at the same time with one name."""

import sys
from multiprocessing import shared_memory

import numpy as np

name = sys.argv[1] if len(sys.argv) > 1 else "numbers"
try:
    memory = shared_memory.SharedMemory(name, create=True, size=4000)
    numbers = np.ndarray(1000, np.float32, memory.buf)
    numbers[:] = 0.5
    input(f"created {name}; Enter ends this\n")
    memory.unlink()
except FileExistsError:
    memory = shared_memory.SharedMemory(name)
    numbers = np.ndarray(1000, np.float32, memory.buf)
    print("sum", numbers.sum())
