"""Kernels handwritten in CUDA C, launched by the device runtime like any kernel.

They have the names and the arguments of those in GLSL, so the same plans launch them, but for the scan, which is one kernel here. They
use the short type names of generated kernels, and nothing else of the prelude.
"""

from __future__ import annotations

import re

from peers.tools import HERE
from raido.algo.graph.dtypes import dtype_named, i64
from raido.targets.cuda.source.generate import Interface, Source
from raido.targets.devices.kernel import Argument

BLOCKS = {
    "stencil": (32, 8, 1),
    "stencil_shared": (32, 8, 1),
    "box": (32, 8, 1),
    "box_shared": (32, 8, 1),
    "star": (32, 8, 1),
    "star_shared": (32, 8, 1),
    "gauss": (16, 16, 1),
    "mandelbrot": (16, 16, 1),
    "sgemm": (8, 8, 1),
}
"""The threads of a block where they are not those of `LINE`."""
LINE = (256, 1, 1)
_HEAD = re.compile(r"__launch_bounds__\((\d+)\)\s+(\w+)\((.*?)\) \{", re.DOTALL)
_PARAMETER = re.compile(r"(?:const )?(\w+)(\*?)\s+(?:__restrict__ )?(\w+)")


def source_of(name: str) -> Source:
    """The text of `cuda/NAME.cu`, which is one kernel of that name: its parameters are arrays, and numbers of i64."""
    text = (HERE / "cuda" / f"{name}.cu").read_text("utf-8")
    head = _HEAD.search(text)
    assert head is not None and head[2] == name, f"{name}.cu has no kernel {name}"
    block = BLOCKS.get(name, LINE)
    assert block[0] * block[1] * block[2] == int(head[1]), f"{name}.cu is for blocks of {head[1]} threads"
    arguments = tuple(
        Argument(each[3], dtype_named(each[1]) if each[2] else i64, bool(each[2]), 8 * k)
        for k, each in enumerate(_PARAMETER.finditer(head[3]))
    )
    return Source(text, (Interface(name, arguments, 8 * len(arguments), block, 0),))
