"""The processor features that code needs are checked before it runs: in this process, in exported libraries, and at loading."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import c_programs as programs
import numpy as np
import pytest

import raido as rd
from raido.algo.errors import CompileError, TargetError
from raido.targets import export, target
from raido.targets.compile import compile_program
from raido.targets.features import FEATURES, Feature
from raido.targets.target import CPUS, Target, host_features

UNSUPPORTED_CPU = 6
# CPUID as a machine answers that has everything, less what the environment says: "leaf:subleaf:register:bit …"
CPUID = """
#define _GNU_SOURCE
#include <cpuid.h>
#include <stdio.h>
#include <stdlib.h>
static inline int reported(unsigned leaf, unsigned subleaf, unsigned* a, unsigned* b, unsigned* c, unsigned* d) {
  unsigned* words[] = {a, b, c, d};
  unsigned hidden_leaf, hidden_subleaf, bit;
  char which;
  *a = *b = *c = *d = ~0u;
  const char* hidden = getenv("HIDDEN_CPUID");
  for (int read = 0; hidden && sscanf(hidden, "%x:%u:%c:%u %n", &hidden_leaf, &hidden_subleaf, &which, &bit, &read) == 4; hidden += read)
    if (hidden_leaf == leaf && hidden_subleaf == subleaf) *words[which - 'a'] &= ~(1u << bit);
  return 1;
}
#define __get_cpuid_count reported
"""
SYSTEM = "the system does not save its registers"


def write_library(folder: Path, requires: tuple[str, ...]) -> Path:
    """A library of `add` that needs some features, and asks the CPUID above."""
    (folder / "reported.h").write_text(CPUID)
    signature = replace(programs.add_signature(), requires=requires)
    row = ("add", signature, programs.build_object(programs.ADD))
    return export.write_library(
        folder / "libneedy.so", [row], cc=[*export.find_compiler(), "-include", str(folder / "reported.h")]
    )


def hide(monkeypatch: pytest.MonkeyPatch, *features: Feature) -> None:
    rows = [f"{f.leaf:x}:{f.subleaf}:{f.register}:{f.bit}" for f in features]
    monkeypatch.setenv("HIDDEN_CPUID", " ".join(rows))


def call(path: Path) -> tuple[int, str]:
    """The status of a call of `add` with arrays of no elements, and the library's message."""
    library = ctypes.CDLL(str(path))
    library.needy_message.restype = ctypes.c_char_p
    zero = ctypes.c_int64(0)
    status = library.add(None, None, zero, zero, None)
    return status, library.needy_message().decode() if status else ""


@pytest.fixture(scope="module")
def needs_everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_library(tmp_path_factory.mktemp("needy"), tuple(FEATURES))


@pytest.mark.parametrize("feature", FEATURES.values(), ids=FEATURES)
def test_a_library_refuses_a_machine_that_lacks_a_feature(
    needs_everything: Path, feature: Feature, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, feature)
    assert call(needs_everything) == (UNSUPPORTED_CPU, f"add: this CPU lacks {feature.name}")
    with pytest.raises(TargetError, match=f"compiled for a CPU with {feature.name}, which this one lacks"):
        export.load(needs_everything)


def test_a_library_refuses_a_system_that_does_not_save_registers(
    needs_everything: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, Feature("osxsave", "", 1, 0, "c", 27))
    assert call(needs_everything) == (UNSUPPORTED_CPU, f"add: this CPU lacks fma ({SYSTEM})")
    hide(monkeypatch)
    there = host_features(())  # what the library sees, which knows nothing of hidden features
    full = (0, "") if "avx512f" in there else (UNSUPPORTED_CPU, f"add: this CPU lacks avx512f ({SYSTEM})")
    assert call(needs_everything) == full or "avx" not in there


@pytest.mark.parametrize("seed", range(3))
def test_any_features_are_asked_for_and_no_others(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    plain = [name for name, feature in FEATURES.items() if feature.saved <= (6 if "avx" in host_features(()) else 0)]
    needed = draw.sample(plain, 8)
    path = write_library(tmp_path, tuple(needed))
    for _ in range(200):
        hidden = draw.sample(list(FEATURES), draw.randint(0, 4))
        hide(monkeypatch, *(FEATURES[name] for name in hidden))
        missing = next((name for name in FEATURES if name in hidden and name in needed), None)
        assert call(path) == ((0, "") if missing is None else (UNSUPPORTED_CPU, f"add: this CPU lacks {missing}"))


def test_a_feature_that_nothing_can_ask_for_is_no_requirement(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"no check for the processor features sse4\.2"):
        write_library(tmp_path, ("sse4.2", "avx"))


@pytest.mark.parametrize("feature", FEATURES)
def test_code_that_needs_a_feature_does_not_run_without_it(feature: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "host_features", lambda hidden=None: frozenset(FEATURES) - {feature})
    for name, cpu in CPUS.items():
        assert Target("llvm", name).runs_here == (feature not in cpu.features)


def _clear_caches() -> None:
    target._features_without.cache_clear()
    target._host_with.cache_clear()


@pytest.fixture
def recognised_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The host is recognised again after the test, whatever the test made of it."""
    monkeypatch.delenv("RAIDO_HIDE_FEATURES", raising=False)
    yield
    monkeypatch.undo()
    _clear_caches()


@pytest.mark.usefixtures("recognised_anew")
@pytest.mark.parametrize("seed", range(40))
def test_the_host_is_never_taken_for_more_than_it_reports(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any features may be hidden, as by a hypervisor: what the host is called then needs none of them."""
    draw = random.Random(seed)
    reported = set(draw.sample(list(FEATURES), draw.randint(0, len(FEATURES))))
    if draw.random() < 0.7:
        reported = set(FEATURES) - set(draw.sample(list(FEATURES), draw.randint(0, 3)))
    for vendor, order in (("AuthenticAMD", target._AMD), ("GenuineIntel", target._INTEL), ("", target._OTHER)):
        text = f"vendor_id : {vendor}\nflags : fpu {' '.join(reported)} sse2\n"
        monkeypatch.setattr(target, "_read_cpuinfo", lambda text=text: text)
        _clear_caches()
        host = Target()
        assert set(host.features) <= reported and host.runs_here and host.is_host
        assert not [name for name in order[: order.index(host.cpu)] if set(CPUS[name].features) <= reported]


def test_an_exported_program_needs_what_its_processor_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @rd.algorithm
    def twice(a: rd.f32["n"]):
        return a * 2

    machine = Target()
    exe = compile_program(twice.trace(), machine, use_cache=False)
    assert set(exe.signature.requires) == set(machine.features) <= set(FEATURES)
    (tmp_path / "reported.h").write_text(CPUID)
    command = [*export.find_compiler(), "-include", str(tmp_path / "reported.h")]
    path = exe.export(tmp_path / "libtwice.so", cc=command)
    np.testing.assert_array_equal(export.load(path)(np.ones(3, "f4")), [2, 2, 2])
    for name in machine.features:
        hide(monkeypatch, FEATURES[name])
        with pytest.raises(TargetError, match=f"with {name}, which"):
            export.load(path)
