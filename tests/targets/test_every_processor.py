"""Every program compiles for every processor of the table, and for LLVM's others; no failure of LLVM ends the process.

Here a sample: every second program for x86-64, and the others for another processor each, under a random schedule. `python
tests/targets/test_every_processor.py` compiles all of them for all, under the default schedule and a random one (about 20 minutes).
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "laws"))
import filter_programs
import scan_programs
import segment_programs
import size_programs
import sort_programs
import update_programs
from corpus import CASES
from law import leaves, random_schedule

from raido.algo.errors import CompileError, TargetError
from raido.targets.compile import Compilation, executable_of
from raido.targets.cross import generate
from raido.targets.features import FEATURES, TURNED_OFF, name_features
from raido.targets.loader import load_object
from raido.targets.target import CPUS, Target

TABLES = (filter_programs, scan_programs, segment_programs, size_programs, sort_programs, update_programs)
PROGRAMS: dict[str, Any] = {case.name.rsplit("_", 1)[0]: case.algorithm for case in CASES} | {
    f"{table.__name__}.{name}": algorithm for table in TABLES for name, (algorithm, _) in table.PROGRAMS.items()
}
OTHERS = [name for name in CPUS if name != "x86-64"]
# Features that LLVM knows of and never uses unasked: instructions of the system, and those that only intrinsics name.
_UNASKED = """
64bit 64bit-mode adx aes amx-avx512 amx-bf16 amx-complex amx-fp16 amx-fp8 amx-int8 amx-movrs amx-tf32 amx-tile
avx512vp2intersect branch-hint cldemote clflushopt clwb clzero cmov crc32 cx8 enqcmd ermsb fsgsbase fsrm fxsr hreset
invpcid kl lwp mmx movdir64b movdiri movrs mwaitx nopl pclmul pconfig pku prefetchi prfchw ptwrite rdpid rdpru rdrnd rdseed
sahf serialize sha sha512 shstk sm3 sm4 sse sse2 tsxldtrk uintr usermsr vaes vpclmulqdq waitpkg wbnoinvd widekl x87 xsave
xsavec xsaveopt xsaves
"""
TUNING = re.compile(
    "(allow|fast|faster|false-deps|idiv[lq]-to|inserted|lea|no-bypass|pad|prefer|sbb|slow|tuning|use|harden)-|branchfusion|macrofusion|vzeroupper"
)


def compile_for(name: str, cpu: str, seed: int | None = None) -> None:
    """Compiles a program for a processor, under a random schedule where there is a seed, and finds all that its object refers to."""
    program = PROGRAMS[name].trace()
    schedule = None if seed is None else random_schedule(program, seed, 6)
    load_object(Compilation(program, Target("llvm", cpu), schedule, {}).object_bytes)


@pytest.mark.parametrize("number, name", list(enumerate(PROGRAMS)), ids=PROGRAMS)
def test_programs_compile_for_x86_64_and_others(number: int, name: str) -> None:
    if number % 2:
        compile_for(name, OTHERS[number // 2 % len(OTHERS)], number)
    else:
        compile_for(name, "x86-64")


@pytest.mark.parametrize("case", CASES[::3], ids=lambda case: case.name)
def test_code_for_every_x86_64_gives_what_numpy_gives(case: Any) -> None:
    program = case.algorithm.trace(*case.arguments)
    found = executable_of(Compilation(program, Target("llvm", "x86-64"), None, {}))(*case.arguments)
    want = case.algorithm.interpret(*case.arguments)
    for one, other in zip(leaves(found), leaves(want), strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12 if case.close else 0, atol=0)


def test_every_feature_that_llvm_may_use_is_in_the_table_or_turned_off() -> None:
    from raido.targets.tvm_corner import llvm_cpus, llvm_features

    known = {feature.llvm for feature in FEATURES.values()} | TURNED_OFF | set(_UNASKED.split())
    for cpu in llvm_cpus():
        found = llvm_features(cpu)
        assert not [name for name in found if name not in known and not TUNING.match(name)], cpu
        if cpu in CPUS:
            assert set(CPUS[cpu].features) == set(name_features(found)) and not TURNED_OFF & set(found), cpu


@pytest.mark.parametrize(
    "cpu", ["nocona", "penryn", "btver1", "sandybridge", "bdver4", "knl", "alderlake", "diamondrapids"]
)
def test_processors_outside_the_table_are_made_code_for(cpu: str) -> None:
    compile_for("filter_programs.several_arrays", cpu)
    target = Target("llvm", cpu)
    assert target.machine.vector_bits == {"alderlake": 256, "bdver4": 256, "knl": 256, "diamondrapids": 512}.get(
        cpu, 128
    )


@pytest.mark.parametrize("cpu", ["i386", "pentium4", "k6", "yonah"])
def test_processors_without_64_bits_are_refused(cpu: str) -> None:
    with pytest.raises(TargetError, match=f'cpu "{cpu}" has no 64-bit mode'):
        Target("llvm", cpu)


def one_shuffle() -> dict[str, Any]:
    """A function with an instruction that needs SSSE3."""
    from raido.algo.graph.dtypes import u8
    from raido.targets import tvm_corner as T

    helper = """
declare <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8>, <16 x i8>)
define internal i32 @shuffle(ptr %p) alwaysinline {
  %v = load <16 x i8>, ptr %p, align 1
  %w = call <16 x i8> @llvm.x86.ssse3.pshuf.b.128(<16 x i8> %v, <16 x i8> %v)
  store <16 x i8> %w, ptr %p, align 1
  ret i32 0
}
"""
    p = T.pointer("p", u8)
    return {"f": T.function("f", [p], T.Evaluate(T.call("shuffle", "int32", p)), helper)}


def test_the_end_of_llvm_is_an_error_and_the_next_code_is_made_all_the_same() -> None:
    functions = one_shuffle()
    for _ in range(2):
        with pytest.raises(
            CompileError, match=r"LLVM has made no code for llvm:x86-64\n.*SIGABRT: LLVM ERROR: Cannot select: .*PSHUFB"
        ):
            generate(functions, Target("llvm", "x86-64"))
        assert "pshufb" in generate(functions, Target("llvm", "nehalem")).text("asm")


@pytest.mark.parametrize("executable", ["", "/no/such/python", "/etc/passwd"])
def test_a_child_that_cannot_be_started_is_an_error(executable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from raido.targets import cross

    monkeypatch.setattr(cross, "_compiler", cross._Compiler())
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(CompileError, match=r"LLVM has made no code for llvm:nehalem\n.*cannot be started"):
        generate(one_shuffle(), Target("llvm", "nehalem"))
    monkeypatch.undo()
    assert generate(one_shuffle(), Target("llvm", "nehalem")).object_bytes()


def test_a_child_gives_the_same_code() -> None:
    from raido.targets.tvm_corner import CompiledModule

    functions, target = one_shuffle(), Target("llvm", "nehalem")
    there, here = generate(functions, target), CompiledModule(functions, target.cpu)
    assert type(there) is not CompiledModule and there.object_bytes() == here.object_bytes()
    assert all(there.text(form) == here.text(form) for form in ("tir", "llvm", "asm"))
    assert type(generate(functions, Target())) is CompiledModule


def test_a_fork_has_a_child_of_its_own() -> None:
    script = """
import os, threading
import raido as rd
from raido.targets.compile import Compilation
@rd.algorithm
def twice(a: rd.f32["n"]):
    return a * 2
make = lambda cpu: Compilation(twice.trace(), rd.Target("llvm", cpu), None, {}).source("asm")
want = {cpu: make(cpu) for cpu in ("nehalem", "haswell")}
assert want["nehalem"] != want["haswell"]
fork = os.fork()
for _ in range(5):
    for cpu, text in want.items():
        assert make(cpu) == text
if fork == 0:
    os._exit(0)
assert os.waitpid(fork, 0)[1] == 0
threads = [threading.Thread(target=make, args=("haswell",)) for _ in range(4)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0 and not done.stderr, done.stderr


def failure(name: str, cpu: str, seed: int | None) -> str:
    """Why a program does not compile for a processor; "" where it does."""
    try:
        compile_for(name, cpu, seed)
    except Exception as error:
        return f"{name} for {cpu}, seed {seed}: {type(error).__name__}: {error}\n"
    return ""


def compile_everything() -> None:
    """Compiles every program for every processor, and says which could not be."""
    failed = 0
    for number, name in enumerate(PROGRAMS):
        seeds = [None, random.Random(number).randrange(10**6)]
        found = [failure(name, cpu, seed) for cpu in CPUS for seed in seeds]
        failed += sum(map(bool, found))
        print(f"{''.join(found)}{number + 1} of {len(PROGRAMS)} programs, {failed} failures", flush=True)
    sys.exit(bool(failed))


if __name__ == "__main__":
    compile_everything()
