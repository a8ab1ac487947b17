# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""A double of torch: CUDA tensors of int64 and their exchange between processes.

In the place of torch where there is no GPU, so that torch_peer.py and its test run
with the driver of $TENON_LIBCUDA. It has what they use of torch, by torch's names,
and follows torch in what the exchange needs: counters in a file, an event for each
message, storages that are cached by handle and offset, and memory that stays
allocated until ipc_collect() finds its counters at 0.
"""

import atexit
import ctypes
import math
import os
import struct
import sys
import types
import weakref

__version__ = "double"
int64 = "torch.int64"
uint8 = "torch.uint8"

_COUNTERS = 10_000
_HEADER = 64
_EVENT_FLAGS = 0x2 | 0x4  # Without times, for other processes.
_CACHE = weakref.WeakValueDictionary()


class _Handle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


class _Driver:
    """The driver and a current context of device 0, made with the first call."""

    def __init__(self):
        self._library = None

    def __getattr__(self, name):
        if self._library is None:
            self._library = ctypes.CDLL(os.environ.get("TENON_LIBCUDA", "libcuda.so.1"))
            context = ctypes.c_void_p()
            self.cuInit(0)
            self.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
            self.cuCtxSetCurrent(context)
        entry = getattr(self._library, name)

        def call(*arguments):
            error = entry(*arguments)
            if error != 0:
                raise RuntimeError(f"{name}() returned {error}")
        return call


_driver = _Driver()


class _CounterFile:
    """Counters of the messages of this process. Its end removes the file."""

    def __init__(self):
        self.name = f"/torch_{os.getpid()}_{os.urandom(4).hex()}_0"
        self._fd = os.open("/dev/shm" + self.name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self._fd, _HEADER + 8 * _COUNTERS)
        os.pwrite(self._fd, struct.pack("i", 1), 0)
        self._used = 0
        atexit.register(os.unlink, "/dev/shm" + self.name)

    def add(self):
        """The number of a new counter, which is 1."""
        os.pwrite(self._fd, struct.pack("q", 1), _HEADER + 8 * self._used)
        self._used += 1
        return self._used - 1

    def is_released(self, counter):
        """Whether its receiver has lowered it."""
        return struct.unpack("q", os.pread(self._fd, 8, _HEADER + 8 * counter)) == (0,)


_counters = None


def _release_counter(name, counter):
    fd = os.open(b"/dev/shm" + name, os.O_RDWR)
    at = _HEADER + 8 * counter
    count, = struct.unpack("q", os.pread(fd, 8, at))
    os.pwrite(fd, struct.pack("q", count - 1), at)
    os.close(fd)


class _Memory:
    """An allocation, and the counters of its messages."""

    allocated = []

    def __init__(self, size):
        self.address = ctypes.c_uint64()
        self.size = size
        self.sent = []
        self.is_dropped = False
        _driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(size))
        _Memory.allocated.append(self)

    def drop(self):
        """Of its storage: frees it, once its messages are released."""
        self.is_dropped = True
        self.collect()

    def collect(self):
        """Frees it if nothing uses it."""
        if self.is_dropped and all(_counters.is_released(c) for c in self.sent):
            _Memory.allocated.remove(self)
            _driver.cuMemFree_v2(self.address)


class UntypedStorage:
    """Memory of this process, or of another one."""

    def __init__(self, address, size, drop, memory=None):
        self.address = address
        self.size = size
        self.memory = memory
        self._drop = drop

    def __del__(self):
        self._drop()


class Tensor:
    """Of int64, on device 0."""

    device = "cuda:0"

    def __init__(self, storage, offset, size, stride):
        self._storage = storage
        self._offset = offset
        self._size = tuple(size)
        self._stride = tuple(stride)

    def _address(self, index):
        return ctypes.c_uint64(self._storage.address + 8 * (self._offset + index))

    def __getitem__(self, rows):
        first, end, _ = rows.indices(self._size[0])
        return Tensor(self._storage, self._offset + first * self._stride[0],
                      (end - first, *self._size[1:]), self._stride)

    def __setitem__(self, row, value):
        number = ctypes.c_int64(value)
        _driver.cuMemcpyHtoD_v2(self._address(row * self._stride[0]), ctypes.byref(number),
                                ctypes.c_size_t(8))

    def tolist(self):
        """As torch has it."""
        last = sum((n - 1) * s for n, s in zip(self._size, self._stride))
        numbers = (ctypes.c_int64 * (last + 1))()
        _driver.cuMemcpyDtoH_v2(numbers, self._address(0), ctypes.c_size_t(8 * (last + 1)))

        def nested(dimension, at):
            if dimension == len(self._size):
                return numbers[at]
            return [nested(dimension + 1, at + i * self._stride[dimension])
                    for i in range(self._size[dimension])]
        return nested(0, 0)


def empty(count, dtype=int64, device="cuda"):
    """Of one dimension."""
    assert (dtype, device) == (int64, "cuda")
    memory = _Memory(8 * count)
    storage = UntypedStorage(memory.address.value, memory.size, memory.drop, memory)
    return Tensor(storage, 0, (count,), (1,))


def arange(count, device="cuda"):
    """0, 1, ..."""
    tensor = empty(count, device=device)
    numbers = (ctypes.c_int64 * count)(*range(count))
    _driver.cuMemcpyHtoD_v2(tensor._address(0), numbers, ctypes.c_size_t(8 * count))
    return tensor


def _event():
    """The handle of a recorded event, which stays until the process ends."""
    event = ctypes.c_void_p()
    stream = ctypes.c_void_p()
    handle = _Handle()
    _driver.cuStreamCreate(ctypes.byref(stream), 1)
    _driver.cuEventCreate(ctypes.byref(event), _EVENT_FLAGS)
    _driver.cuEventRecord(event, stream)
    _driver.cuIpcGetEventHandle(ctypes.byref(handle), event)
    return bytes(handle)


def _reduce_tensor(tensor):
    global _counters
    if _counters is None:
        _counters = _CounterFile()
    handle = _Handle()
    memory = tensor._storage.memory
    _driver.cuIpcGetMemHandle(ctypes.byref(handle), memory.address)
    memory.sent.append(_counters.add())
    return _rebuild_cuda_tensor, (
        Tensor, tensor._size, tensor._stride, tensor._offset, UntypedStorage, int64, 0,
        b"\x02c" + bytes(handle), memory.size, 0, False, _counters.name.encode(),
        memory.sent[-1], _event(), True)


def _open(handle, size, offset, name, counter):
    base = ctypes.c_uint64()
    _driver.cuIpcOpenMemHandle_v2(ctypes.byref(base), _Handle.from_buffer_copy(handle[-64:]), 1)

    def drop():
        _driver.cuIpcCloseMemHandle(base)
        _release_counter(name, counter)
    return UntypedStorage(base.value + offset, size, drop)


def _rebuild_cuda_tensor(
        tensor_cls, tensor_size, tensor_stride, tensor_offset, storage_cls, dtype, storage_device,
        storage_handle, storage_size_bytes, storage_offset_bytes, requires_grad,
        ref_counter_handle, ref_counter_offset, event_handle, event_sync_required):
    assert (tensor_cls, storage_cls, dtype, storage_device) == (Tensor, UntypedStorage, int64, 0)
    assert (requires_grad, event_handle, event_sync_required) == (False, b"", False)
    assert math.prod(tensor_size) * 8 <= storage_size_bytes
    key = (storage_handle, storage_offset_bytes)
    storage = _CACHE.get(key)
    if storage is None:
        storage = _open(storage_handle, storage_size_bytes, storage_offset_bytes,
                        ref_counter_handle, ref_counter_offset)
        _CACHE[key] = storage
    else:  # It has a counter already.
        _release_counter(ref_counter_handle, ref_counter_offset)
    return Tensor(storage, tensor_offset, tensor_size, tensor_stride)


def _is_available():
    try:
        return _driver.cuCtxSynchronize() is None
    except (OSError, RuntimeError):
        return False


def _ipc_collect():
    for memory in list(_Memory.allocated):
        memory.collect()


def _get_device_properties(_):
    uuid = (ctypes.c_uint8 * 16)()
    _driver.cuDeviceGetUuid_v2(uuid, 0)
    return types.SimpleNamespace(uuid=types.SimpleNamespace(bytes=list(uuid)))


cuda = types.SimpleNamespace(
    is_available=_is_available, device_count=lambda: 1, synchronize=lambda: _driver.cuCtxSynchronize(),
    ipc_collect=_ipc_collect, get_device_properties=_get_device_properties,
    memory_allocated=lambda: sum(memory.size for memory in _Memory.allocated))
multiprocessing = types.ModuleType("torch.multiprocessing")
multiprocessing.set_sharing_strategy = lambda _: None
multiprocessing.reductions = types.ModuleType("torch.multiprocessing.reductions")
multiprocessing.reductions.reduce_tensor = _reduce_tensor
multiprocessing.reductions.rebuild_cuda_tensor = _rebuild_cuda_tensor
sys.modules[multiprocessing.__name__] = multiprocessing
sys.modules[multiprocessing.reductions.__name__] = multiprocessing.reductions
