"""Processor features that compiled code may rely on: one table for targets, the host, LLVM and the check inside exported libraries.

The table has every feature that LLVM may use for ordinary code without being asked. A feature is named as in /proc/cpuinfo; LLVM has its
own name for it, and CPUID a bit (Intel SDM, volume 2A, CPUID; AMD APM, volume 3, appendix E). The C check reads CPUID directly, since not
every compiler's library has `__builtin_cpu_supports`, and none of them knows every name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_YMM = 0x6  # XCR0: the operating system saves XMM and the upper halves of YMM registers
_ZMM = 0xE6  # and opmasks, the upper halves of ZMM0–15, and ZMM16–31
_EXTENDED = 0x80000001


@dataclass(frozen=True, slots=True)
class Feature:
    """A processor feature: its names, the CPUID bit that reports it, and the XCR0 bits without which the system does not save its
    registers."""

    name: str
    llvm: str
    leaf: int
    subleaf: int
    register: str
    bit: int
    saved: int = 0


FEATURES = {
    feature.name: feature
    for feature in (
        Feature("pni", "sse3", 1, 0, "c", 0),
        Feature("ssse3", "ssse3", 1, 0, "c", 9),
        Feature("fma", "fma", 1, 0, "c", 12, _YMM),
        Feature("cx16", "cx16", 1, 0, "c", 13),
        Feature("sse4_1", "sse4.1", 1, 0, "c", 19),
        Feature("sse4_2", "sse4.2", 1, 0, "c", 20),
        Feature("movbe", "movbe", 1, 0, "c", 22),
        Feature("popcnt", "popcnt", 1, 0, "c", 23),
        Feature("avx", "avx", 1, 0, "c", 28, _YMM),
        Feature("f16c", "f16c", 1, 0, "c", 29, _YMM),
        Feature("abm", "lzcnt", _EXTENDED, 0, "c", 5),
        Feature("sse4a", "sse4a", _EXTENDED, 0, "c", 6),
        Feature("xop", "xop", _EXTENDED, 0, "c", 11, _YMM),
        Feature("fma4", "fma4", _EXTENDED, 0, "c", 16, _YMM),
        Feature("tbm", "tbm", _EXTENDED, 0, "c", 21),
        Feature("bmi1", "bmi", 7, 0, "b", 3),
        Feature("avx2", "avx2", 7, 0, "b", 5, _YMM),
        Feature("bmi2", "bmi2", 7, 0, "b", 8),
        Feature("avx512f", "avx512f", 7, 0, "b", 16, _ZMM),
        Feature("avx512dq", "avx512dq", 7, 0, "b", 17, _ZMM),
        Feature("avx512ifma", "avx512ifma", 7, 0, "b", 21, _ZMM),
        Feature("avx512cd", "avx512cd", 7, 0, "b", 28, _ZMM),
        Feature("avx512bw", "avx512bw", 7, 0, "b", 30, _ZMM),
        Feature("avx512vl", "avx512vl", 7, 0, "b", 31, _ZMM),
        Feature("avx512vbmi", "avx512vbmi", 7, 0, "c", 1, _ZMM),
        Feature("avx512_vbmi2", "avx512vbmi2", 7, 0, "c", 6, _ZMM),
        Feature("gfni", "gfni", 7, 0, "c", 8),
        Feature("avx512_vnni", "avx512vnni", 7, 0, "c", 11, _ZMM),
        Feature("avx512_bitalg", "avx512bitalg", 7, 0, "c", 12, _ZMM),
        Feature("avx512_vpopcntdq", "avx512vpopcntdq", 7, 0, "c", 14, _ZMM),
        Feature("avx512_fp16", "avx512fp16", 7, 0, "d", 23, _ZMM),
        Feature("avx_vnni", "avxvnni", 7, 1, "a", 4, _YMM),
        Feature("avx512_bf16", "avx512bf16", 7, 1, "a", 5, _ZMM),
    )
}
# LLVM may use these unasked too, but /proc/cpuinfo does not show them on every kernel: code is made without them.
_UNSEEN = "avx10.1 avx10.2 avxifma avxneconvert avxvnniint16 avxvnniint8 ccmp cmpccxadd egpr ndd nf ppx push2pop2 zu"
TURNED_OFF = frozenset(_UNSEEN.split())
_BY_LLVM = {feature.llvm: feature.name for feature in FEATURES.values()}


def name_features(llvm: Iterable[str]) -> tuple[str, ...]:
    """Features of the table, in its order, among LLVM's feature names."""
    found = {_BY_LLVM[name] for name in llvm if name in _BY_LLVM}
    return tuple(name for name in FEATURES if name in found)
