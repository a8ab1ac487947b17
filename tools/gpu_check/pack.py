#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Packs checks of a GPU into a folder that runs where there is nothing else.

    pack.py FOLDER BINARY...

Copies the binaries without their symbols, run.py, and the script for Python with
torch. The fake driver, libcuda.so.1, is in a folder of its own, where tests find
it. Fails if the folder has more than 40 MB, or if a binary needs a shared
library that the C library and the compiler do not bring.
"""

import pathlib
import re
import shutil
import subprocess
import sys

LIMIT = 40_000_000
# Where torch_gpu_test finds it.
TORCH_PEER = "shm_manager/testdata/torch_peer.py"
ALLOWED = re.compile(
    r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d+|ld-linux-.*")


def needed(binary):
    """The shared libraries that it names."""
    text = subprocess.run(["readelf", "-d", binary], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def main():
    """See above."""
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for binary in map(pathlib.Path, sys.argv[2:]):
        others = [name for name in needed(binary) if not ALLOWED.fullmatch(name)]
        if others:
            sys.exit(f"{binary.name} needs {' '.join(others)}")
        copy = folder / ("cuda_ipc/fake" if ".so" in binary.name else "") / binary.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(binary, copy)
        copy.chmod(0o755)
        subprocess.run(["strip", "--strip-unneeded", copy], check=True)
    script = folder / TORCH_PEER
    script.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(pathlib.Path(__file__).resolve().parents[2] / TORCH_PEER, script)
    runner = folder / "run.py"
    shutil.copyfile(pathlib.Path(__file__).resolve().parent / "run.py", runner)
    runner.chmod(0o755)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if size > LIMIT:
        sys.exit(f"{folder} has {size} bytes, more than {LIMIT}")
    print(f"{folder}: {size} bytes; copy it to a machine with a GPU and start run.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
