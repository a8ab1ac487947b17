# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""The floors of the house: which package may depend on which.

A target may depend on targets of its own package, and on packages of a
strictly lower rank. The first folder of a label decides: //shm/internal is
part of //shm. cc.bzl checks this while loading, tools/check_layers.sh over the
whole graph.
"""

RANKS = {
    "bazel": 0,
    "third_party": 0,
    "shm": 1,
    "ipc": 2,
    "cuda_ipc": 3,
    "futures": 4,
    "spawn": 5,
    "shm_manager": 5,
    "loader": 6,
    "benchmarks": 7,
    "examples": 7,
    "tools": 7,
}

def _floor(package):
    floor = package.split("/")[0]
    if floor not in RANKS:
        fail("//%s has no rank in //bazel:layers.bzl" % package)
    return floor

def _package_of(label):
    """The Tenon package that a label names; None for others' and our own."""
    for own in ["@tenon//", "//"]:
        if label.startswith(own):
            return label[len(own):].split(":")[0]
    if label.startswith("@//"):
        fail("%s means the package of whoever uses Tenon; write %s" %
             (label, label[1:]))
    return None

def check_layers(name, attribute, labels):
    """Fails if a target of the calling package names one beside or above it.

    Args:
      name: the target, for the message.
      attribute: the attribute that holds the labels, for the message.
      labels: what the attribute holds.
    """
    if type(labels) != "list":
        fail(("//%s:%s: %s is a select(), which the layer check cannot see " +
              "through. Put the select() into an alias and name that.") %
             (native.package_name(), name, attribute))
    floor = _floor(native.package_name())
    for label in labels:
        package = _package_of(label)
        if package == None:
            continue
        below = _floor(package)
        if below != floor and RANKS[below] >= RANKS[floor]:
            fail(("//%s:%s: %s has %s, but %s (rank %d) may depend only on " +
                  "lower ranks, and %s has %d. See //bazel:layers.bzl.") % (
                native.package_name(),
                name,
                attribute,
                label,
                floor,
                RANKS[floor],
                below,
                RANKS[below],
            ))
