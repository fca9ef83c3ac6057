"""`compile_program`: compiles a program under a schedule to an `Executable`, or loads it from the compile cache.

The cache key covers every input of the compilation, as known before any work: the program's fingerprint, the schedule as the user wrote it,
the sizes and the machine (defaults follow from these alone), the target, the versions of raido and TVM, and which of the nodes that can
fault share a source line. Line numbers themselves are not part of it: a program that was moved takes the cached code, and its messages name
its own lines. On a hit TVM is not imported, no stage is formed and nothing is lowered: the entry holds the signature. `Compilation` holds
the intermediate forms, each made when first asked for; `Executable.source` shows them.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.metadata
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raido.algo.errors import CompileError, CopyWarning, TargetError
from raido.algo.graph import index
from raido.algo.graph.expr import ARRAY_FORMS, Parameter, While
from raido.algo.graph.faults import can_fault
from raido.algo.graph.program import Program, Site, SizeCheck
from raido.algo.graph.size_numbers import is_size_arithmetic
from raido.algo.passes.specialise import specialise
from raido.algo.trace.locations import warn_at
from raido.schedule.fingerprint import fingerprint, nodes_of
from raido.schedule.stages.updates.repeated_copies import RepeatedCopy
from raido.targets.cache import Cache, key_of
from raido.targets.executable import Executable
from raido.targets.interface import Source
from raido.targets.loader import load_object
from raido.targets.signature import FaultSite, Signature, signature_of
from raido.targets.target import Target

if TYPE_CHECKING:
    from raido.schedule.nest.nodes import Nest
    from raido.schedule.schedule import Schedule
    from raido.targets.cross import Module


def compile_program(
    program: Program,
    target: Target | str | None = None,
    schedule: Schedule | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    cache: Cache | None = None,
    use_cache: bool = True,
    notes: Mapping[str, str] | None = None,
) -> Executable:
    """Compiles a program.

    schedule: None is the default one. sizes: sizes to specialise for (the executable then takes no others). cache: None is the user's
    folder; `use_cache=False` compiles anew and stores nothing. notes: further texts that `Executable.source` returns, by kind. Raises
    `ScheduleError` for a schedule that cannot be carried out, `TargetError` for an unknown target or one whose code this machine cannot
    run, `CompileError` for faults of raido's own.
    """
    work = compilation_for(program, Target.parse(target), schedule, sizes or {})
    store = (cache or _default_cache()) if use_cache else None
    key = work.key if store is not None else ""
    entry = store.get(key) if store is not None else None
    if entry is not None:
        with contextlib.suppress(TargetError):  # it is whole, but no program: compiled anew, and replaced
            signature, copies = work.with_own_lines(entry[1])
            _warn_of_copies(copies)
            return executable_of(work, entry[0], signature, notes)
    made = executable_of(work, notes=notes)
    _warn_of_copies(work.nest.copies)
    if store is not None:
        lines = [_line(site) for site in work.lines]
        kept = {"signature": work.signature.to_json(), "copies": work.copies, "lines": lines}
        store.put(key, work.object_bytes, {**_description(work), **kept})
    return made


def executable_of(
    work: Compilation,
    code: bytes | None = None,
    signature: Signature | None = None,
    notes: Mapping[str, str] | None = None,
) -> Executable:
    """The executable of a compilation; `code` and `signature` are given where they come from the cache."""
    sources: dict[str, Callable[[], str]] = {kind: functools.partial(work.source, kind) for kind in work.sources}
    return work.load(code or work.object_bytes, signature or work.signature, {**sources, **(notes or {})})


def compilation_for(
    program: Program, target: Target, schedule: Schedule | None, sizes: Mapping[str, int]
) -> Compilation:
    """The `Compilation` of a program for the target's kind."""
    if target.kind == "vulkan":
        from raido.targets.vulkan.compile import VulkanCompilation

        return VulkanCompilation(program, target, schedule, sizes)
    if target.kind == "cuda":
        from raido.targets.cuda.program import CudaCompilation

        return CudaCompilation(program, target, schedule, sizes)
    return Compilation(program, target, schedule, sizes)


SOURCES = ("schedule", "nest", "gang", "tir", "llvm", "asm")


@dataclass
class Compilation:
    """One program being compiled to machine code: its intermediate forms, each made when first asked for and kept."""

    original: Program
    target: Target
    given: Schedule | None
    sizes: Mapping[str, int]

    def __reduce__(self) -> tuple[Any, ...]:
        sizes = dict(self.sizes)
        return type(self), (self.original, self.target, self.given, sizes)

    @property
    def sources(self) -> tuple[str, ...]:
        """The kinds of text that `source` returns."""
        return SOURCES

    def load(self, code: bytes, signature: Signature, sources: Mapping[str, Source]) -> Executable:
        """The executable of compiled code, made here or read from the cache; raises `TargetError` where this machine cannot run it."""
        if not self.target.runs_here:
            missing = ", ".join(sorted(set(self.target.features) - _host(self.target.hidden)))
            raise TargetError(
                f"this machine cannot run code for {self.target}: it lacks {missing}; `Compilation` makes the object only"
            )
        loaded = load_object(code)
        address = loaded.address(signature.entry)
        return Executable(signature, address, loaded, sources, object_bytes=code, threads=self.target.threads)

    @functools.cached_property
    def program(self) -> Program:
        """The program, specialised for the known sizes."""
        return specialise(self.original, self.sizes) if self.sizes else self.original

    @functools.cached_property
    def schedule(self) -> Schedule:
        """The schedule with every default written out."""
        given = self.given
        if given is None or self.program is not given.graph.program:
            from raido.schedule.schedule import Schedule
            from raido.schedule.stages.form_stages import form_stages

            directives = () if given is None else given.explicit_directives
            given = Schedule(form_stages(self.program, as_general=bool(directives)), directives, self.target)
        return given.complete(self.target.machine, self.sizes or None)

    @functools.cached_property
    def key(self) -> str:
        """The program's cache key."""
        given = self.given
        return key_of(
            fingerprint(self.program),
            "" if given is None or not given.explicit_directives else given.to_json(),
            repr(sorted((name, int(size)) for name, size in self.sizes.items())),
            repr(sorted(axis.name for axis in self.program.named_axes)),
            self.described_target,
            *versions(),
            repr([self.lines[site] for site in self.faulting]),
            *(f"{_size_check(check)}, {check.site and self.lines[check.site]}" for check in self.program.size_checks),
        )

    @property
    def described_target(self) -> str:
        """Text of everything about the target that code depends on."""
        return f"{self.target} {replace(self.target.machine, cores=0)}"

    @functools.cached_property
    def lines(self) -> dict[Site, int]:
        """Source lines that messages may name, numbered by first occurrence, so that the same program elsewhere has the same numbers."""
        checks = (check.site for check in self.program.size_checks if check.site is not None)
        return {site: k for k, site in enumerate(dict.fromkeys((*self.faulting, *checks)))}

    @functools.cached_property
    def faulting(self) -> tuple[Site, ...]:
        """Source lines of the nodes that messages name, in the order of the program's nodes: checked loads, integer divisions (those in
        sizes too), loops that data ends, arrays and loop states."""
        found = ((node, self.program.sites.get(node)) for node in nodes_of(self.program))
        return tuple(
            site
            for node, site in found
            if site
            and (can_fault(node) or is_size_arithmetic(node) or isinstance(node, (While, Parameter, *ARRAY_FORMS)))
        )

    def with_own_lines(self, kept: Mapping[str, Any]) -> tuple[Signature, list[RepeatedCopy]]:
        """Signature and repeated copies of a cache entry, their source lines replaced by this program's.

        Raises `TargetError` where a line is not among those of the entry.
        """
        try:
            signature = Signature.from_json(str(kept.get("signature")))
            own: dict[tuple[Any, ...], Site] = {("", 0): Site("", 0, "")}
            for (file, line, array), site in zip(kept["lines"], self.lines, strict=True):
                own[str(file), int(line)] = own[str(file), int(line), str(array)] = site
            locations = (own[each.file, each.line] for each in signature.sites)
            sites = (
                replace(each, file=site.file, line=site.line, text=site.text)
                for each, site in zip(signature.sites, locations, strict=True)
            )
            copies = []
            for stage, array, why, remedy, locations in kept["copies"]:
                site, named, reader = (location and own[tuple(location)] for location in locations)
                copies.append(RepeatedCopy(str(stage), str(array), str(why), str(remedy), site, named, reader))
            return replace(signature, sites=tuple(sites)), copies
        except (KeyError, TypeError, ValueError) as error:
            raise TargetError(f"no lines of this program: {error}") from error

    @functools.cached_property
    def nest(self) -> Nest:
        """The scalar loop nest."""
        from raido.schedule.lower import lower

        return lower(self.schedule.graph, self.schedule.variants(), self.target.machine)

    @property
    def copies(self) -> list[list[Any]]:
        """Arrays that are copied in every iteration of a loop, as JSON data: stage, array, reason, remedy, and the sites of the warning."""
        return [
            [
                copy.stage,
                copy.array,
                copy.why,
                copy.remedy,
                [s and _line(s) for s in (copy.site, copy.named, copy.reader)],
            ]
            for copy in self.nest.copies
        ]

    @functools.cached_property
    def gang(self) -> Nest:
        """The gang nest: loops with lanes."""
        from raido.schedule.gang.vectorise import form_gangs
        from raido.schedule.nest.passes.skip_empty import skip_empty_loops

        return form_gangs(skip_empty_loops(self.nest), self.target.machine.vector_bits)

    @functools.cached_property
    def signature(self) -> Signature:
        """The executable's interface."""
        return self.signature_for(self.gang, self.target.features)

    def signature_for(self, nest: Nest, requires: tuple[str, ...]) -> Signature:
        """The signature of code made of a nest that requires these processor features."""
        sites = tuple(
            FaultSite(s.file, s.line, s.text, s.array) if s is not None else FaultSite("", 0, "") for s in nest.sites
        )
        graph = self.schedule.graph
        left = {size.name for size, _ in nest.counts}
        bounds = {c.size.name: c.bound for c in graph.counts if c.size.name in left}
        return signature_of(self.program, self.entry, sites, requires, graph.shapes, bounds)

    @property
    def entry(self) -> str:
        """The symbol of the entry function."""
        clean = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in self.program.name)
        return f"raido_{clean}"

    @functools.cached_property
    def functions(self) -> dict[str, Any]:
        """The program's TIR functions by symbol."""
        from raido.targets.emit.program import emit_program

        return emit_program(self.gang, self.entry, self.target.capabilities)

    @functools.cached_property
    def module(self) -> Module:
        """The module that TVM and LLVM generate code of."""
        from raido.targets.cross import generate

        return generate(self.functions, self.target)

    @functools.cached_property
    def object_bytes(self) -> bytes:
        """The relocatable ELF object."""
        return self.module.object_bytes()

    def source(self, kind: str) -> str:
        """The text of one of `SOURCES`."""
        if kind == "schedule":
            return str(self.schedule)
        if kind in ("nest", "gang"):
            from raido.schedule.nest.printer import print_nest

            return print_nest(self.nest if kind == "nest" else self.gang)
        if kind not in SOURCES:
            raise CompileError(f"internal: no source of kind {kind}")
        return self.module.text(kind)


@functools.cache
def _default_cache() -> Cache:
    return Cache()


def _host(hidden: Iterable[str] | None) -> frozenset[str]:
    from raido.targets.target import host_features

    return host_features(hidden)


@functools.cache
def versions() -> tuple[str, ...]:
    """Versions of the compiler, for cache keys: raido's and TVM's, and a digest of names, sizes and modification times of raido's own
    files."""
    return _version_of("raido"), _version_of("apache-tvm"), _digest_of_files()


def _version_of(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{package} absent"


def _digest_of_files() -> str:
    import raido.algo
    import raido.schedule

    digest = hashlib.sha256()
    for folder in (raido.algo.__file__, raido.schedule.__file__, __file__):
        for path, names, files in os.walk(Path(folder or ".").parent):
            names[:] = sorted(name for name in names if not name.startswith((".", "__")))
            for file in sorted(files):
                if file.endswith(".py"):
                    state = os.stat(os.path.join(path, file))
                    digest.update(f"{file} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _line(site: Site) -> list[Any]:
    """A site as the cache keeps it: file, line and array. The same program elsewhere, or with other names of states, substitutes its own."""
    return [site.file, site.line, site.array]


def _warn_of_copies(copies: Iterable[RepeatedCopy]) -> None:
    """Emits a `CopyWarning`, at the user's line, for each whole array that is copied in every iteration of a loop. Copies in raido's own
    functions are left out; only `show` names them."""
    for copy in copies:
        if not copy.is_of_raido:
            warn_at(copy.site or Site("", 0, ""), str(copy), CopyWarning)


def _description(work: Compilation) -> dict[str, Any]:
    """Description of a cache entry for people: name, target, source line, number of directives, sizes."""
    program = work.original
    site = next((program.sites[form] for form in program.order if form in program.sites), None)
    return {
        "name": program.name,
        "target": str(work.target),
        "source": "" if site is None else f"{site.file}:{site.line}",
        "steps": len(work.given.directives) if work.given is not None else 0,
        "sizes": dict(work.sizes),
    }


def _size_check(check: SizeCheck) -> str:
    """Text of a size check for the cache key; the program's fingerprint does not cover such checks."""
    return f"{index.text(check.left)} = {index.text(check.right)}, {check.left_owner}, {check.right_owner}"
