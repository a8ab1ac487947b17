# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""Abseil 20220623, as @abseil-cpp//absl/...

In Debian's build absl::string_view is not std::string_view, and there is no
absl/log. A target that is missing below is one line more.
"""

load("//third_party:system_library.bzl", "system_library")

# Upstream's package: {upstream's target: module, without its absl_}.
_TARGETS = {
    "algorithm": {"algorithm": "algorithm", "container": "algorithm_container"},
    "base": [
        "base",
        "config",
        "core_headers",
        "dynamic_annotations",
        "endian",
        "log_severity",
    ],
    "cleanup": ["cleanup"],
    "container": [
        "btree",
        "fixed_array",
        "flat_hash_map",
        "flat_hash_set",
        "inlined_vector",
        "node_hash_map",
        "node_hash_set",
    ],
    "debugging": [
        "failure_signal_handler",
        "leak_check",
        "stacktrace",
        "symbolize",
    ],
    "flags": {
        "commandlineflag": "flags_commandlineflag",
        "config": "flags_config",
        "flag": "flags",
        "marshalling": "flags_marshalling",
        "parse": "flags_parse",
        "reflection": "flags_reflection",
        "usage": "flags_usage",
    },
    "functional": ["any_invocable", "bind_front", "function_ref"],
    "hash": ["hash"],
    "memory": ["memory"],
    "meta": ["type_traits"],
    "numeric": ["bits", "int128"],
    "random": {
        "bit_gen_ref": "random_bit_gen_ref",
        "distributions": "random_distributions",
        "random": "random_random",
        "seed_sequences": "random_seed_sequences",
    },
    "status": ["status", "statusor"],
    "strings": ["cord", "str_format", "strings"],
    "synchronization": ["synchronization"],
    "time": ["time"],
    "types": ["any", "compare", "optional", "span", "variant"],
    "utility": ["utility"],
}

def abseil(name):
    targets = {}
    for package, names in _TARGETS.items():
        for target in names:
            module = names[target] if type(names) == "dict" else target
            targets["absl/%s:%s" % (package, target)] = "absl_" + module
    system_library(
        name = name,
        debian_package = "libabsl-dev",
        targets = targets,
    )
