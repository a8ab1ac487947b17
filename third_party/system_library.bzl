# SPDX-FileCopyrightText: 2026 The Tenon Authors
# SPDX-License-Identifier: Apache-2.0

"""A Debian library as a repository with the labels of its upstream.

pkg-config says where a module's description is; its Requires become deps, so
that the linker gets the archives in the right order. Archives are linked
statically wherever Debian ships them. Headers are in /usr/include, which every
compiler searches, and need no declaration; those in a folder of it that is not
searched are declared.
"""

# Part of libc, or (atomic) not needed on the 64-bit machines Tenon runs on.
_WITH_THE_COMPILER = ["atomic", "m", "pthread", "rt"]

def missing_package(package, why):
    """Ends the build with the name of the Debian package that would help."""
    fail(("\n\nTenon needs the Debian package %s (%s).\nInstall it with\n" +
          "    sudo apt-get install %s\nor build with Tenon's ./bazelw, " +
          "which installs what is missing.\n") % (package, why, package))

def _pkg_config(ctx, *args):
    program = ctx.which("pkg-config")
    if program == None:
        missing_package("pkg-config", "there is no pkg-config")
    result = ctx.execute([program] + list(args))
    if result.return_code != 0:
        why = result.stderr.strip().splitlines()[-1]
        missing_package(ctx.attr.debian_package, why)
    return result.stdout.strip()

def _read_module(ctx, directory, module):
    """Returns (modules it requires, libraries it links)."""
    if module in ctx.attr.archives:
        return ctx.attr.archives[module], [module]
    requires = []
    libraries = []
    for line in ctx.read("%s/%s.pc" % (directory, module)).splitlines():
        key, _, value = line.partition(":")
        words = value.replace(",", " ").split(" ")
        if key in ["Requires", "Requires.private"]:
            # "absl_core = 20220623 absl_base" has names and versions.
            requires += [w for w in words if w and w[0].isalpha()]
        if key in ["Libs", "Libs.private"]:
            libraries += [w[2:] for w in words if w.startswith("-l")]
    return requires, [x for x in libraries if x not in _WITH_THE_COMPILER]

_CC_LIBRARY = """
cc_library(
    name = "{name}",
    srcs = {srcs},
    linkopts = {linkopts},
    deps = {deps},
)
"""

def _module_library(ctx, libdir, module, requires, libraries):
    srcs = []
    linkopts = []
    for library in libraries:
        archive = "lib%s.a" % library
        static = library not in ctx.attr.shared
        if static and ctx.path("%s/%s" % (libdir, archive)).exists:
            ctx.symlink("%s/%s" % (libdir, archive), "modules/" + archive)
            srcs.append(archive)
        else:
            linkopts.append("-l" + library)
    return _CC_LIBRARY.format(
        name = module,
        srcs = srcs,
        linkopts = linkopts,
        deps = [":" + r for r in requires],
    )

def _write_modules(ctx, wanted):
    """Writes //modules: one library for each module, and all it requires."""
    described = [m for m in wanted if m not in ctx.attr.archives]
    _pkg_config(ctx, "--exists", "--print-errors", *described)
    directory = _pkg_config(ctx, "--variable=pcfiledir", described[0])
    libdir = _pkg_config(ctx, "--variable=libdir", described[0])
    text = ""
    pending = wanted
    seen = {}
    for _ in range(100):  # Starlark has no while; this bounds the depth.
        reached = []
        for module in pending:
            if module in seen:
                continue
            seen[module] = True
            requires, libraries = _read_module(ctx, directory, module)
            text += _module_library(ctx, libdir, module, requires, libraries)
            reached += requires
        pending = reached
    if pending:
        fail("%s: modules require each other too deeply" % ctx.name)
    return text

_HEADER = """load("@rules_cc//cc:defs.bzl", "cc_library")

package(default_visibility = ["%s"])
"""

_ALIAS = """
alias(
    name = "%s",
    actual = "//modules:%s",
)
"""

_HEADERS_ONLY = """
cc_library(name = "%s")
"""

_HEADERS_IN_A_FOLDER = """
cc_library(
    name = "%s",
    hdrs = glob(["include/**"]),
    includes = ["include"],
)
"""

def _system_library_impl(ctx):
    header = ctx.attr.header
    if header and not ctx.path("/usr/include/" + header).exists:
        missing_package(ctx.attr.debian_package, "there is no " + header)
    headers_only = _HEADERS_ONLY
    if ctx.attr.include_folder:
        ctx.symlink("/usr/include/" + ctx.attr.include_folder, "include")
        headers_only = _HEADERS_IN_A_FOLDER
    packages = {"": _HEADER % "//visibility:public"}
    for label, module in ctx.attr.targets.items():
        package, _, name = label.partition(":")
        text = packages.get(package, _HEADER % "//visibility:public")
        text += _ALIAS % (name, module) if module else headers_only % name
        packages[package] = text
    modules = [m for m in ctx.attr.targets.values() if m]
    if modules:
        text = _write_modules(ctx, modules)
        packages["modules"] = _HEADER % "//:__subpackages__" + text
    for package, text in packages.items():
        ctx.file((package + "/" if package else "") + "BUILD.bazel", text)

system_library = repository_rule(
    implementation = _system_library_impl,
    attrs = {
        "archives": attr.string_list_dict(
            doc = "Archives without a description: what they require.",
        ),
        "debian_package": attr.string(mandatory = True),
        "header": attr.string(
            doc = "Must exist under /usr/include; for libraries of headers.",
        ),
        "include_folder": attr.string(
            doc = "The folder under /usr/include that has the headers; for " +
                  "libraries of headers, in the main package.",
        ),
        "shared": attr.string_list(
            doc = "Libraries whose archives are of no use.",
        ),
        "targets": attr.string_dict(
            doc = "From package:name of upstream to a module of pkg-config; " +
                  "to nothing if there are only headers.",
            mandatory = True,
        ),
    },
    configure = True,
    local = True,
    environ = ["PATH", "PKG_CONFIG_PATH"],
)
