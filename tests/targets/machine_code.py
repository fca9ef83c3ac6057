"""The machine code of the corpus, and of programs under each of their strategies, as hashes that ignore names.

    python tests/targets/machine_code.py --against FOLDER

compiles every program twice, by this tree and by the one in FOLDER (another checkout of raido), and prints those whose code differs: none
do if a change of the compiler is a pure refactoring. The processor is fixed (`--cpu`), and nothing is run. `--write FILE` keeps the
hashes of this tree, and `--compare FILE` compares them with kept ones. `--kind tir` compares
TIR, which takes a third of the time, and `--programs WORD …` only programs with one of the words in their names.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from scheduled_programs import scheduled_programs

import raido as rd
from raido.targets.compile import Compilation
from raido.targets.emit.program import emit_program

_LABEL = re.compile(r"^([A-Za-z_.$][\w.$@]*):", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z_.$][\w.$@]*")
# The order and names of sections and symbols do not matter to what runs.
_LEFT_OUT = re.compile(r"^\s*\.(file|ident|section|type|size|globl|local|p2align)\b.*$|#.*$", re.MULTILINE)


def without_names(assembly: str) -> str:
    """The instructions and data of an assembly; of symbols that it defines, only which are the same."""
    defined = set(_LABEL.findall(assembly))
    numbers: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        name = match[0]
        return numbers.setdefault(name, f"s{len(numbers)}") if name in defined else name

    return re.sub(r"\n\s*\n+", "\n", _NAME.sub(number, _LEFT_OUT.sub("", assembly)))


def hashes(cpu: str, kind: str, words: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """The name of every program with its schedule, and the hash of its code."""
    for name, traced, schedule in scheduled_programs():
        if words and not any(word in name for word in words):
            continue
        work = Compilation(traced, rd.Target("llvm", cpu=cpu), schedule, {})
        if kind == "asm":
            code = without_names(work.source("asm"))
        else:
            functions = emit_program(work.gang, work.entry, work.target.capabilities)
            code = "\n".join(f"{symbol}\n{function.script()}" for symbol, function in functions.items())
        yield name, hashlib.sha256(code.encode()).hexdigest()[:16]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="FOLDER", type=Path)
    parser.add_argument("--write", metavar="FILE", type=Path)
    parser.add_argument("--compare", metavar="FILE", type=Path)
    parser.add_argument("--cpu", default="x86-64-v4")
    parser.add_argument("--kind", choices=("asm", "tir"), default="asm")
    parser.add_argument("--programs", nargs="+", default=[], metavar="WORD")
    given = parser.parse_args()
    own = dict(hashes(given.cpu, given.kind, given.programs))
    if given.write:
        given.write.write_text(json.dumps(own, indent=0))
    if given.against:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "hashes.json"
            command = [sys.executable, __file__, "--write", str(kept), "--cpu", given.cpu, "--kind", given.kind]
            command += ["--programs", *given.programs] if given.programs else []
            subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(given.against.resolve() / "src")})
            other = json.loads(kept.read_text())
    elif given.compare:
        other = json.loads(given.compare.read_text())
    else:
        other = own
    differing = [name for name in own if name in other and own[name] != other[name]]
    print(f"{len(own)} programs, {len(own.keys() & other.keys())} compared, {len(differing)} differ")
    for name in differing:
        print(f"  {name}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
