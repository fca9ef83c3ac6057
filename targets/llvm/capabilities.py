"""Capabilities of a processor, as the writers of helper functions ask for them: never its name, never a feature's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Instructions that helper functions may rely on beyond those of every x86-64.

    vector_bits: width of a vector register. fused: fused multiply-add is one instruction. byte_shuffle: any permutation of the
    bytes of a 128-bit register is one (`pshufb`). byte_permutes: so is any of those of two registers of 512 bits (`vpermi2b`).
    streams_apart: as a `Machine` says it.
    """

    vector_bits: int = 128
    fused: bool = False
    byte_shuffle: bool = False
    byte_permutes: bool = False
    streams_apart: int = 0
