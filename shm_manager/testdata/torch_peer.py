# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0
"""A process of torch that a test controls: one statement a line.

Answers each line of its input with one line: the value of the last expression,
"ok", or "error: " and the exception. Ends with its input.
"""

import gc
import os
import sys

import torch
import torch.multiprocessing
from torch.multiprocessing.reductions import rebuild_cuda_tensor, reduce_tensor

torch.multiprocessing.set_sharing_strategy("file_system")


def share(tensor):
    """Moves the tensor into shared memory: its manager, name and size."""
    manager, name, size = tensor.untyped_storage()._share_filename_cpu_()
    return f"{manager.decode()} {name.decode()} {size}"


def receive(manager, name, size, dtype=torch.uint8):
    """The tensor in shared memory that has this name."""
    storage = torch.UntypedStorage._new_shared_filename_cpu(
        manager.encode(), name.encode(), size)
    return torch.empty(0, dtype=dtype).set_(storage)


def forked(function):
    """Runs `function` in a forked child, which prints nothing; its pid."""
    pid = os.fork()
    if pid == 0:
        sys.stdin.close()
        function()
        os._exit(0)
    return pid


def uuid_of(device):
    """In hexadecimal digits."""
    return bytes(torch.cuda.get_device_properties(device).uuid.bytes).hex()


def share_cuda(tensor):
    """A message for one receiver: TorchTensor's members but for requires_grad."""
    _, message = reduce_tensor(tensor)
    (_, size, stride, offset, _, dtype, device, handle, storage_bytes, storage_offset, _,
     counter_file, counter, event, has_event) = message
    values = [",".join(map(str, size)), ",".join(map(str, stride)), offset, dtype, device,
              handle.hex(), storage_bytes, storage_offset, counter_file.decode(), counter,
              int(has_event), event.hex() if has_event else "none", uuid_of(tensor.device)]
    return " ".join(map(str, values))


def receive_cuda(uuid, size, stride, offset, handle, storage_bytes, storage_offset, counter_file,
                 counter, dtype=torch.int64):
    """The tensor of a message that has no event."""
    device = next(i for i in range(torch.cuda.device_count()) if uuid_of(i) == uuid)
    return rebuild_cuda_tensor(
        torch.Tensor, size, stride, offset, torch.UntypedStorage, dtype, device,
        bytes.fromhex(handle), storage_bytes, storage_offset, False, counter_file.encode(),
        counter, b"", False)


names = {"gc": gc, "os": os, "sys": sys, "torch": torch, "mp": torch.multiprocessing,
         "share": share, "receive": receive, "forked": forked, "share_cuda": share_cuda,
         "receive_cuda": receive_cuda}


def answer(line):
    """Of one statement."""
    try:
        try:
            return repr(eval(line, names))
        except SyntaxError:
            exec(line, names)
            return "ok"
    except Exception as error:  # Any, of torch.
        return "error: " + str(error).split("\n")[0]


if __name__ == "__main__":
    print("torch", torch.__version__, flush=True)
    for statement in sys.stdin:
        print(answer(statement), flush=True)
