"""Capabilities of a processor, as writers of helper functions query them instead of processor and feature names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Instructions that helper functions may rely on beyond those of every x86-64.

    vector_bits: width of a vector register. fused: fused multiply-add is one instruction. byte_shuffle: any permutation of the bytes of a
    128-bit register is one instruction (`pshufb`). byte_permutes: so is any of the bytes of two 512-bit registers (`vpermi2b`).
    ranges: so is the extreme of two floats, zeros by their signs, NaN dropped (`vrangeps`).
    byte_compresses: lanes of 8 and 16 bits are moved to the front by one instruction (`vpcompressb`), as wider ones are with 512 bits.
    streams_apart: see `Machine`. dots: sums of products of four bytes are one instruction (`vpdpbusd`).
    """

    vector_bits: int = 128
    fused: bool = False
    byte_shuffle: bool = False
    byte_permutes: bool = False
    ranges: bool = False
    streams_apart: int = 0
    dots: bool = False
    byte_compresses: bool = False
