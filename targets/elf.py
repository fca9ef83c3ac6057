"""Parses 64-bit little-endian ELF relocatable objects, as compilers for x86-64 write them, and renames their symbols.

Covers the loader's and the exporter's needs: sections, symbols, relocations with addends. Any other file is refused with a `TargetError`,
so the offsets of an `ObjectFile` are valid.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from raido.algo.errors import TargetError

SHT_PROGBITS, SHT_SYMTAB, SHT_RELA, SHT_NOBITS, SHT_INIT_ARRAY = 1, 2, 4, 8, 14
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR, SHF_TLS = 1, 2, 4, 0x400
SHN_UNDEF, SHN_ABS, SHN_COMMON, SHN_XINDEX = 0, 0xFFF1, 0xFFF2, 0xFFFF
STB_LOCAL, STB_GLOBAL, STB_WEAK = 0, 1, 2
STT_SECTION, STT_FILE, STT_TLS, STT_IFUNC = 3, 4, 6, 10

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELA = struct.Struct("<QQq")


@dataclass(frozen=True, slots=True)
class Section:
    """A section: `flags` of SHF_*, `offset` and `size` in the file in bytes, `link` and `info` as the format defines them by type."""

    name: str
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol; `value` is the alignment of a common symbol."""

    name: str
    binding: int
    type: int
    section: int
    value: int
    size: int


@dataclass(frozen=True, slots=True)
class Relocation:
    """A relocation: patch `offset` of section number `section` by rule `type`, for symbol number `symbol` plus `addend`."""

    section: int
    offset: int
    type: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """A parsed object with the relocations of its loaded sections."""

    data: bytes
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]
    relocations: tuple[Relocation, ...]


def parse_object(data: bytes) -> ObjectFile:
    """Parses an x86-64 relocatable object; raises `TargetError` when `data` is another file or damaged."""
    try:
        return _parse(data)
    except TargetError:
        raise
    except (struct.error, IndexError, ValueError) as error:
        raise TargetError(f"the object file is damaged: {error}") from error


def _parse(data: bytes) -> ObjectFile:
    if data[:6] != b"\x7fELF\x02\x01":
        raise TargetError("not an object file: 64-bit little-endian ELF is expected")
    header = _HEADER.unpack_from(data)
    kind, machine, table, entry_size, count, names_index = (
        header[1],
        header[2],
        header[6],
        header[11],
        header[12],
        header[13],
    )
    if kind != 1 or machine != 62:
        raise TargetError(f"not a relocatable object for x86-64 (ELF type {kind}, machine {machine})")
    if entry_size != _SECTION.size:
        raise TargetError("the object file is damaged: odd section headers")
    if count == 0:  # more sections than 16 bits can count: the number stands in the first header
        count = _SECTION.unpack_from(data, table)[5]
    if names_index == SHN_XINDEX:
        names_index = _SECTION.unpack_from(data, table)[6]
    raw = [_SECTION.unpack_from(data, table + i * _SECTION.size) for i in range(count)]
    names = raw[names_index]
    sections = tuple(
        Section(_string(data, names[4] + r[0]), r[1], r[2], r[4], r[5], r[6], r[7], max(r[8], 1)) for r in raw
    )
    for section in sections:
        if section.type != SHT_NOBITS and section.offset + section.size > len(data):
            raise TargetError(f"the object file is damaged: section {section.name} ends behind the file")
    symbols: list[Symbol] = []
    for section in sections:
        if section.type == SHT_SYMTAB:
            strings = sections[section.link].offset
            table_bytes = data[section.offset : section.offset + section.size]
            for name, info, _other, index, value, size in _SYMBOL.iter_unpack(table_bytes):
                symbols.append(Symbol(_string(data, strings + name), info >> 4, info & 15, index, value, size))
    relocations: list[Relocation] = []
    for section in sections:
        if section.type == SHT_RELA and sections[section.info].flags & SHF_ALLOC:
            table_bytes = data[section.offset : section.offset + section.size]
            for offset, info, addend in _RELA.iter_unpack(table_bytes):
                relocations.append(Relocation(section.info, offset, info & 0xFFFFFFFF, info >> 32, addend))
                if info >> 32 >= len(symbols) or offset >= sections[section.info].size:
                    raise TargetError(f"the object file is damaged: a relocation of {section.name} points nowhere")
    return ObjectFile(data, sections, tuple(symbols), tuple(relocations))


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode() if data[start : start + 1] != b"\0" else ""


def rename_globals(data: bytes, prefix: str) -> bytes:
    """The object with `prefix` before the name of every strong global symbol it defines, and all its definitions hidden.

    Objects compiled separately may define equal names; renamed, they link into one library. Weak definitions keep their names: they are
    meant to be overridden or shared. The grown string table moves to the end of the file; nothing else moves.
    """
    file = parse_object(data)
    out = bytearray(data)
    table_index = next(i for i, section in enumerate(file.sections) if section.type == SHT_SYMTAB)
    table = file.sections[table_index]
    strings = file.sections[table.link]
    text = bytearray(data[strings.offset : strings.offset + strings.size])
    for i, symbol in enumerate(file.symbols):
        if symbol.binding == STB_LOCAL or symbol.section == SHN_UNDEF:
            continue
        at = table.offset + i * _SYMBOL.size
        out[at + 5] = (out[at + 5] & ~3) | 2  # STV_HIDDEN
        if symbol.binding == STB_GLOBAL:
            struct.pack_into("<I", out, at, len(text))
            text += (prefix + symbol.name).encode() + b"\0"
    header = _HEADER.unpack_from(data)
    where = header[6] + table.link * _SECTION.size
    struct.pack_into("<QQ", out, where + 24, len(out), len(text))
    return bytes(out + text)
