# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""The floors and rooms of the house: which package may depend on which.

A floor is a folder of the root, a room is a folder in it. A library may depend
on libraries of its own room and of rooms in earlier rows. The longest prefix of
a package decides, so ipc/queue/internal is part of the room ipc/queue. A test,
or what is built for tests only, may depend on everything in its own floor and
in lower floors.

cc.bzl checks this while loading, tools/check_layers.py over the whole graph.
"""

_ROWS = [
    ["bazel", "third_party"],
    ["shm/base"],
    ["futures", "shm/locks", "shm/pages", "shm/process"],
    ["shm/segment"],
    ["shm/ledger", "shm/tensor"],
    ["shm/arena", "shm/tensor/exchange", "shm/value"],
    ["shm/arena/query"],
    ["shm"],
    ["ipc/channel", "ipc/doorbell", "ipc/slots"],
    ["ipc/listener", "ipc/sync"],
    ["ipc/queue", "ipc/ring"],
    ["ipc/tensor_codec"],
    ["ipc/tensor_queue"],
    ["ipc"],
    ["cuda_ipc"],
    ["spawn/settings"],
    ["spawn/supervisor"],
    ["spawn/report"],
    ["spawn/arguments"],
    ["spawn/child"],
    ["spawn/fork_server"],
    ["spawn/process"],
    ["spawn/pool"],
    ["shm_manager", "spawn"],
    ["loader/collate", "loader/job", "loader/stats"],
    ["loader/sampling"],
    ["loader/data"],
    ["loader/datasets", "loader/worker"],
    ["loader"],
    ["loader/to_device"],
    ["benchmarks", "examples", "tools"],
]

# Rooms bind libraries.
ROOMS = {room: rank for rank, row in enumerate(_ROWS) for room in row}

# Floors bind tests.
FLOORS = {
    "bazel": 0,
    "third_party": 0,
    "shm": 1,
    "futures": 2,
    "ipc": 2,
    "shm_manager": 3,
    "spawn": 3,
    "cuda_ipc": 4,  # Its tests start children.
    "loader": 5,
    "benchmarks": 6,
    "examples": 6,
    "tools": 6,
}

# Each names everything public of a floor. They are for users.
UMBRELLAS = ["//futures", "//ipc", "//shm", "//spawn"]

def place(package, is_library):
    """The room or floor of a package and its rank; (None, -1) if there is none.

    Args:
      package: a package, such as "ipc/queue/internal".
      is_library: whether the target is a library that is not for tests only.
    """
    folders = package.split("/")
    if not is_library:
        return (folders[0], FLOORS[folders[0]]) if folders[0] in FLOORS else (None, -1)
    for length in range(len(folders), 0, -1):
        room = "/".join(folders[:length])
        if room in ROOMS:
            return (room, ROOMS[room])
    return (None, -1)

def _package_of(label):
    """A label's package in Tenon; None for other and relative labels."""
    for own in ["@tenon//", "//"]:
        if label.startswith(own):
            return label[len(own):].split(":")[0]
    if label.startswith("@//"):
        fail("%s means the package of the workspace that uses Tenon; write %s" %
             (label, label[1:]))
    return None

def _place(package, is_library):
    found = place(package, is_library)
    if found[0] == None:
        fail("//%s has no rank in //bazel:layers.bzl" % package)
    return found

def check_layers(name, attribute, labels, is_library):
    """Fails if a target of the calling package names one beside or above it.

    Args:
      name: the target, for the message.
      attribute: the attribute that holds the labels, for the message.
      labels: what the attribute holds.
      is_library: whether the target is a library that is not for tests only.
    """
    target = "//%s:%s" % (native.package_name(), name)
    if type(labels) != "list":
        fail(("%s: %s is a select(), which the layer check cannot see " +
              "through. Put the select() into an alias and name that.") %
             (target, attribute))
    here, rank = _place(native.package_name(), is_library)
    for label in labels:
        package = _package_of(label)
        if package == None:
            continue
        if label in UMBRELLAS:
            fail("%s: %s has %s, which is for users of Tenon; name the targets" %
                 (target, attribute, label))
        below, rank_below = _place(package, is_library)
        if below != here and rank_below >= rank:
            fail(("%s: %s has %s, but %s (rank %d) may depend only on lower " +
                  "ranks, and %s has %d. See //bazel:layers.bzl.") %
                 (target, attribute, label, here, rank, below, rank_below))
