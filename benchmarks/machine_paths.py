"""Machine code of CUDA, as nvdisasm prints it, as basic blocks; and the path through it that does most of the work."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

_FUNCTION = re.compile(r"^\.text\.(\w+):$")
_LABEL = re.compile(r"^(\.L_\w+):$")
_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(@!?U?P\w+\s+)?([A-Z][\w.]*)(.*);")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_JUMPS = ("BRA", "JMP", "EXIT", "RET", "BRX")
_TESTS = ("BRA.DIV", "BRA.CONV")  # jumps of warps whose threads have parted, or have not


@dataclass(frozen=True)
class Code:
    """A kernel: the instructions of each block, and the blocks that may follow it."""

    blocks: Sequence[Sequence[str]]
    followers: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Route:
    """Instructions on a path, and the units of work among them."""

    instructions: int
    work: int


def disassemble(code: bytes, nvdisasm: str) -> dict[str, Code]:
    """The kernels of machine code, by name."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cubin").write_bytes(code)
        command = [nvdisasm, "-c", "-ndf", "k.cubin"]
        return read_code(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)


def read_code(text: str) -> dict[str, Code]:
    """The kernels of a disassembly, by name. Padding is left out."""
    kernels: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            lines = kernels[match[1]] = []
        else:
            lines.append(line)
    return {name: _blocks(lines) for name, lines in kernels.items()}


def _blocks(lines: Iterable[str]) -> Code:
    blocks: list[list[str]] = [[]]
    labels: dict[str, int] = {}
    ends: dict[int, tuple[str, bool, str | None]] = {}
    for line in lines:
        if label := _LABEL.match(line):
            if blocks[-1]:
                blocks.append([])
            labels[label[1]] = len(blocks) - 1
        elif (match := _INSTRUCTION.match(line)) and match[2] != "NOP":
            blocks[-1].append(match[2])
            if match[2].split(".")[0] in _JUMPS:
                target = _TARGET.search(match[3])
                tested = match[1] is not None or match[2] in _TESTS
                ends[len(blocks) - 1] = (match[2].split(".")[0], tested, target and target[1])
                blocks.append([])
    followers: list[list[int]] = []
    for k in range(len(blocks)):
        name, tested, target = ends.get(k, ("", True, None))
        following = [labels[target]] if name in ("BRA", "JMP") and target in labels else []
        if (tested or name == "") and k + 1 < len(blocks):
            following.append(k + 1)
        followers.append(list(dict.fromkeys(following)))
    return Code(blocks, followers)


def main_path(code: Code, work: Callable[[str], int]) -> Route:
    """The path that does most work, of these the shortest: once through an innermost loop, or through the kernel, where work in loops does not
    count. `work` are the units of an instruction."""
    weights = [Route(len(block), sum(map(work, block))) for block in code.blocks]
    back = _back_edges(code.followers)
    bodies = {(latch, head): _natural_loop(code.followers, latch, head) for latch, head in back}
    found = [
        _heaviest(head, {latch}, body, code.followers, back, weights)
        for (latch, head), body in bodies.items()
        if not any(other < body for other in bodies.values())
    ]
    around = set().union(*bodies.values())
    outside = [replace(weight, work=0) if k in around else weight for k, weight in enumerate(weights)]
    exits = {k for k, following in enumerate(code.followers) if not following}
    found.append(_heaviest(0, exits, set(range(len(weights))), code.followers, back, outside))
    return max(found, key=_order)


def _order(path: Route) -> tuple[int, int]:
    return (path.work, -path.instructions)


def _back_edges(followers: Sequence[Sequence[int]]) -> set[tuple[int, int]]:
    """The edges that lead back into the path from the entry."""
    found: set[tuple[int, int]] = set()
    state: dict[int, str] = {0: "open"}
    stack = [(0, iter(followers[0]))]
    while stack:
        block, rest = stack[-1]
        following = next(rest, None)
        if following is None:
            state[block] = "done"
            stack.pop()
        elif state.get(following) == "open":
            found.add((block, following))
        elif following not in state:
            state[following] = "open"
            stack.append((following, iter(followers[following])))
    return found


def _natural_loop(followers: Sequence[Sequence[int]], latch: int, head: int) -> set[int]:
    """The blocks that reach the latch of a loop without its head, and the head."""
    before: dict[int, list[int]] = {}
    for k, following in enumerate(followers):
        for each in following:
            before.setdefault(each, []).append(k)
    body, stack = {head, latch}, [] if latch == head else [latch]
    while stack:
        for each in before.get(stack.pop(), ()):
            if each not in body:
                body.add(each)
                stack.append(each)
    return body


def _heaviest(
    start: int,
    ends: set[int],
    body: set[int],
    followers: Sequence[Sequence[int]],
    back: set[tuple[int, int]],
    weights: Sequence[Route],
) -> Route:
    """The heaviest path from a block to one of some others, inside a body, around no loop."""
    best: dict[int, Route | None] = {}
    stack = [start]
    while stack:
        k = stack[-1]
        onward = [each for each in followers[k] if each in body and (k, each) not in back]
        if waiting := [each for each in onward if each not in best]:
            stack += waiting
            continue
        stack.pop()
        paths = [path for each in onward if (path := best[each]) is not None]
        paths += [Route(0, 0)] if k in ends else []
        rest = max(paths, key=_order, default=None)
        own = weights[k]
        best[k] = None if rest is None else Route(own.instructions + rest.instructions, own.work + rest.work)
    return best[start] or Route(0, 0)


def units(*names: str) -> Callable[[str], int]:
    """The work of an instruction: 1 where it has one of these names; for loads and stores (LDG, STG) the elements of 4 bytes that it moves."""

    def work(instruction: str) -> int:
        parts = instruction.split(".")
        if parts[0] not in names:
            return 0
        return 4 if "128" in parts else 2 if "64" in parts else 1

    return work


def heaviest_kernel(kernels: Mapping[str, Code], work: Callable[[str], int]) -> Route:
    """The path of the kernel that does most work on its path."""
    return max((main_path(code, work) for code in kernels.values()), key=_order)
