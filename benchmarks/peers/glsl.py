"""Kernels handwritten in GLSL, compiled by glslangValidator, launched by the device runtime like any kernel."""

from __future__ import annotations

import re

from peers.tools import HERE, build, missing
from raido.algo.graph.dtypes import i64, u8
from raido.targets.devices.kernel import Argument, Kernel

COMPILER, INSTALL = "glslangValidator", "apt-get install glslang-tools"
_BLOCK = re.compile(r"uniform Arguments \{ (.*?) \};", re.DOTALL)
_MEMBER = re.compile(r"(uint64_t|int64_t) (\w+);")


def unavailable() -> list[str]:
    return missing(None, COMPILER)


def compile_shader(name: str) -> Kernel:
    """The kernel of `glsl/NAME.comp`; its arguments are the members of its push constants: u64 are arrays' addresses, i64 are numbers."""
    source = f"glsl/{name}.comp"
    command = (COMPILER, "-V", "--quiet", "--target-env", "vulkan1.2", f"{name}.comp", "-o", "kernel.spv")
    code = build(None, [source], [command], "kernel.spv").read_bytes()
    block = _BLOCK.search((HERE / source).read_text("utf-8"))
    assert block is not None, f"{source} has no block of arguments"
    arguments = tuple(
        Argument(member, u8 if kind == "uint64_t" else i64, kind == "uint64_t", 8 * k)
        for k, (kind, member) in enumerate(_MEMBER.findall(block[1]))
    )
    return Kernel("main", code, "addresses", arguments, 8 * len(arguments), True, (1, 1, 1), 0)
