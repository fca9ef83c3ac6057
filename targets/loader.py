"""Loads machine code from a relocatable object into memory, without linker, compiler or TVM.

`load_object` lays the object's sections out in one mapping (code and call stubs | constants and address table | data), applies the
relocations, and protects it: code becomes executable and read-only; no page is ever both writable and executable. Undefined symbols are
looked up in `externals`, then in the C runtime, libm, libc and the compiler's own library. Functions further than 2 GiB away are called
through stubs. TVM's weak pointer variables receive the runtime's functions. Every fault is a `TargetError`. (System V ABI, AMD64
supplement, chapter 4; Linux only.)
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import platform
import struct
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from raido.algo.errors import TargetError
from raido.targets import elf
from raido.targets.native import runtime_library

PAGE = 4096
_PROT_READ, _PROT_WRITE, _PROT_EXEC = 1, 2, 4
_MAP_PRIVATE, _MAP_32BIT, _MAP_ANONYMOUS = 2, 0x40, 0x20

_NONE, _64, _PC32, _PLT32, _GOTPCREL, _32, _32S = 0, 1, 2, 4, 9, 10, 11
_PC64, _GOTOFF64, _GOTPC32, _GOT64, _GOTPC64, _GOTPCRELX, _REX_GOTPCRELX = 24, 25, 26, 27, 29, 41, 42
_THROUGH_TABLE = {_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX, _GOT64}
_SIZES = {_64: "<Q", _PC64: "<q", _GOTOFF64: "<q", _GOT64: "<q", _GOTPC64: "<q", _32: "<I"}
_STUB = b"\xff\x25\x00\x00\x00\x00"  # jmp *0(%rip); the address follows
_STUB_SIZE = 16


class LoadedObject:
    """An object in memory, unmapped when this Python object is collected: keep it as long as its addresses are used."""

    __slots__ = ("__weakref__", "addresses", "size")

    def __init__(self, addresses: Mapping[str, int], size: int) -> None:
        self.addresses = addresses
        self.size = size

    def address(self, symbol: str) -> int:
        """The address of a global symbol that the object defines; raises `TargetError` for any other."""
        try:
            return self.addresses[symbol]
        except KeyError:
            known = ", ".join(sorted(self.addresses)) or "none"
            raise TargetError(f"the object defines no symbol {symbol!r}; it defines: {known}") from None


def load_object(data: bytes, externals: Mapping[str, int] | None = None) -> LoadedObject:
    """Loads relocatable object `data`; `externals` maps further symbols to addresses and is searched before the libraries."""
    if platform.machine() not in ("x86_64", "AMD64"):
        raise TargetError(f"objects for x86-64 do not run on {platform.machine()}")
    file = elf.parse_object(data)
    layout = _place_sections(file, externals or {})
    low = any(relocation.type in (_32, _32S) for relocation in file.relocations)
    base = _map_memory(layout.size, low)
    try:
        image, addresses = _link(file, layout, base)
        _write_image(base, image, layout)
    except BaseException:
        _libc().munmap(base, layout.size)
        raise
    loaded = LoadedObject(addresses, layout.size)
    constructors = [s for s in file.sections if s.type == elf.SHT_INIT_ARRAY and s.flags & elf.SHF_ALLOC]
    if constructors:  # they may have registered code of the object anywhere: it stays for good
        for section in constructors:
            at = base + layout.offsets[file.sections.index(section)]
            for address in (ctypes.c_size_t * (section.size // 8)).from_address(at):
                ctypes.CFUNCTYPE(None)(address)()
    else:
        weakref.finalize(loaded, _libc().munmap, base, layout.size).atexit = False
    return loaded


# --- layout


@dataclass(frozen=True, slots=True)
class _Layout:
    """Byte offsets in the mapping: of sections and common symbols by their numbers, of stubs and address-table slots by symbol number."""

    offsets: dict[int, int]
    commons: dict[int, int]
    stubs: dict[int, int]
    slots: dict[int, int]
    outside: dict[int, int]  # addresses of undefined symbols
    table: int
    constants: int  # where code ends and constants begin
    writable: int  # where constants end and data begins
    size: int


def _place_sections(file: elf.ObjectFile, externals: Mapping[str, int]) -> _Layout:
    outside: dict[int, int] = {}
    slots: dict[int, int] = {}
    stubs: dict[int, int] = {}
    for relocation in file.relocations:
        number = relocation.symbol
        symbol = file.symbols[number]
        if symbol.section == elf.SHN_UNDEF and number and number not in outside:
            outside[number] = _resolve(symbol, externals)
        if relocation.type in _THROUGH_TABLE:
            slots.setdefault(number, 8 * len(slots))
        elif relocation.type in (_PC32, _PLT32) and number in outside:
            stubs.setdefault(number, _STUB_SIZE * len(stubs))
    offsets: dict[int, int] = {}
    commons: dict[int, int] = {}
    end = 0

    def place(wanted: int) -> None:
        nonlocal end
        for i, section in enumerate(file.sections):
            kept = section.flags & elf.SHF_ALLOC and section.name != ".eh_frame"
            if kept and section.flags & (elf.SHF_WRITE | elf.SHF_EXECINSTR) == wanted:
                if section.flags & elf.SHF_TLS:
                    raise TargetError(f"thread-local storage ({section.name}) cannot be loaded from an object")
                end = _align(end, section.align)
                offsets[i] = end
                end += section.size

    place(elf.SHF_EXECINSTR)
    end = _align(end, 16)
    stubs = {number: end + offset for number, offset in stubs.items()}
    constants = end = _align(end + _STUB_SIZE * len(stubs), PAGE)
    place(0)
    table = end = _align(end, 8)
    slots = {number: end + offset for number, offset in slots.items()}
    writable = end = _align(end + 8 * len(slots), PAGE)
    place(elf.SHF_WRITE)
    for number, symbol in enumerate(file.symbols):
        if symbol.section == elf.SHN_COMMON:
            commons[number] = end = _align(end, max(symbol.value, 1))
            end += symbol.size
    return _Layout(offsets, commons, stubs, slots, outside, table, constants, writable, max(_align(end, PAGE), PAGE))


def _align(value: int, alignment: int) -> int:
    return (value + alignment - 1) // alignment * alignment


# --- names


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """Libraries in which undefined symbols are looked up, in order."""
    found = [runtime_library()]
    for name in ("libm.so.6", "libc.so.6", "libgcc_s.so.1", "libmvec.so.1"):
        with contextlib.suppress(OSError):
            found.append(ctypes.CDLL(name))
    return (*found, ctypes.CDLL(None))


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc


def _resolve(symbol: elf.Symbol, externals: Mapping[str, int]) -> int:
    if symbol.name in externals:
        return externals[symbol.name]
    for library in _libraries():
        with contextlib.suppress(AttributeError):
            return ctypes.cast(getattr(library, symbol.name), ctypes.c_void_p).value or 0
    if symbol.binding == elf.STB_WEAK:
        return 0
    raise TargetError(f"the object needs {symbol.name!r}, which neither raido's runtime nor the C library has")


# --- linking


def _link(file: elf.ObjectFile, layout: _Layout, base: int) -> tuple[bytearray, dict[str, int]]:
    """The relocated bytes of the mapping at `base`, and the addresses of the symbols that the object defines."""
    image = bytearray(layout.size)
    for i, offset in layout.offsets.items():
        section = file.sections[i]
        if section.type != elf.SHT_NOBITS:
            image[offset : offset + section.size] = file.data[section.offset : section.offset + section.size]
    for number, offset in layout.stubs.items():
        image[offset : offset + _STUB_SIZE] = _STUB + struct.pack("<QH", layout.outside[number], 0)
    addresses = {}
    for number, symbol in _defined(file):
        address = _symbol_address(file, layout, base, number)
        addresses[symbol.name] = address
        if symbol.binding == elf.STB_WEAK and symbol.name.startswith("__TVM"):
            with contextlib.suppress(ValueError):  # a variable that the runtime does not have stays null
                pointer = ctypes.c_size_t.in_dll(runtime_library(), symbol.name).value
                struct.pack_into("<Q", image, address - base, pointer)
    for number, offset in layout.slots.items():
        struct.pack_into("<Q", image, offset, _symbol_address(file, layout, base, number))
    for relocation in file.relocations:
        if relocation.section in layout.offsets and relocation.type != _NONE:
            _relocate(file, layout, base, image, relocation)
    return image, addresses


def _defined(file: elf.ObjectFile) -> Iterator[tuple[int, elf.Symbol]]:
    for number, symbol in enumerate(file.symbols):
        if symbol.binding != elf.STB_LOCAL and symbol.section != elf.SHN_UNDEF:
            yield number, symbol


def _symbol_address(file: elf.ObjectFile, layout: _Layout, base: int, number: int) -> int:
    symbol = file.symbols[number]
    if symbol.type in (elf.STT_TLS, elf.STT_IFUNC):
        raise TargetError(f"symbol {symbol.name!r} is of a kind (thread-local or indirect) that cannot be loaded")
    if symbol.section == elf.SHN_UNDEF:
        return layout.outside.get(number, 0)
    if symbol.section == elf.SHN_ABS:
        return symbol.value
    if symbol.section == elf.SHN_COMMON:
        return base + layout.commons[number]
    if symbol.section not in layout.offsets:
        raise TargetError(f"symbol {symbol.name!r} lies in a section that is not loaded")
    return base + layout.offsets[symbol.section] + symbol.value


def _relocate(file: elf.ObjectFile, layout: _Layout, base: int, image: bytearray, relocation: elf.Relocation) -> None:
    number, kind, addend = relocation.symbol, relocation.type, relocation.addend
    at = layout.offsets[relocation.section] + relocation.offset
    place, table = base + at, base + layout.table
    target = _symbol_address(file, layout, base, number)
    if kind in (_64, _32, _32S):
        value = target + addend
    elif kind in (_PC32, _PLT32):
        value = target + addend - place
        if number in layout.stubs and not -(1 << 31) <= value < 1 << 31 and (kind == _PLT32 or _is_call(image, at)):
            value = base + layout.stubs[number] + addend - place
    elif kind == _PC64:
        value = target + addend - place
    elif kind in (_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX):
        value = base + layout.slots[number] + addend - place
    elif kind == _GOT64:
        value = base + layout.slots[number] - table + addend
    elif kind == _GOTOFF64:
        value = target + addend - table
    elif kind in (_GOTPC32, _GOTPC64):
        value = table + addend - place
    else:
        raise TargetError(f"relocation type {kind} (symbol {file.symbols[number].name!r}) is not supported")
    form = _SIZES.get(kind, "<i")
    try:
        struct.pack_into(form, image, at, value & (1 << 64) - 1 if form == "<Q" else value)
    except struct.error:
        name = file.symbols[number].name or file.sections[file.symbols[number].section].name
        raise TargetError(f"{name!r} is out of reach of a 32-bit relocation: compile the object with -fPIC") from None


def _is_call(image: bytearray, at: int) -> bool:
    """Whether the displacement at `at` belongs to a call or jump, which may go through a stub; data needs the real address."""
    return image[at - 1] in (0xE8, 0xE9) or (at > 1 and image[at - 2] == 0x0F and image[at - 1] & 0xF0 == 0x80)


# --- memory


def _map_memory(size: int, low: bool) -> int:
    """The address of fresh zeroed pages, below 2 GiB when `low` asks for it and the system has room there."""
    flags = _MAP_PRIVATE | _MAP_ANONYMOUS
    for wanted in (flags | _MAP_32BIT, flags) if low else (flags,):
        base = _libc().mmap(None, size, _PROT_READ | _PROT_WRITE, wanted, -1, 0)
        if base not in (None, ctypes.c_void_p(-1).value):
            return base
    raise TargetError(f"cannot map {size} bytes for machine code (errno {ctypes.get_errno()})")


def _write_image(base: int, image: bytearray, layout: _Layout) -> None:
    ctypes.memmove(base, bytes(image), len(image))
    _protect(base, layout.constants, _PROT_READ | _PROT_EXEC)
    _protect(base + layout.constants, layout.writable - layout.constants, _PROT_READ)


def _protect(address: int, size: int, protection: int) -> None:
    if size and _libc().mprotect(address, size, protection):
        raise TargetError(f"this system does not let a process make code executable (errno {ctypes.get_errno()})")
