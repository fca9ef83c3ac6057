"""The computed read, write and bind sets of statements are those of the interpreter's source for them."""

from __future__ import annotations

import re
import typing

import pytest
from scheduled_programs import scheduled

from raido.schedule.gang.vectorise import form_gangs
from raido.schedule.lower import lower
from raido.schedule.machine import Machine
from raido.schedule.nest import effects
from raido.schedule.nest.effects import binds, reads, touched, writes, written
from raido.schedule.nest.nodes import Block, Let, Prefetch, Statement
from raido.schedule.nest.values import Buffer
from raido.schedule.nest.walk import blocks_of
from raido.schedule.oracles.python_source import PythonSource

PROGRAMS = (
    "scans/exclusive_from_five chain",
    "scans/running_sum serial",
    "filters/both_parts count_write",
    "sorts/narrow_ones",
    "sorts/unsigned_ones",
    "updates/weights private",
    "updates/histogram atomic",
    "segments/sums flat",
)
_ACCESS = re.compile(r"\b(m\d+)\.(read|vector_read|gather|write|vector_write|scatter|copy)\((m\d+)?")
_NAMED = re.compile(r"^ *([vwn]\d+) = ", re.MULTILINE)


class Observed(PythonSource):
    """The source of a nest; of each statement that holds no others, the buffers that its lines read and write, and its names."""

    def __init__(self, nest):
        self.observed = []
        super().__init__(nest)

    def statement(self, s):
        start = len(self.lines)
        super().statement(s)
        if isinstance(s, Block) or list(blocks_of(s)):
            return
        text, nodes = "\n".join(self.lines[start:]), {name: node for node, name in self.names.items()}
        read, changed = set(), set()
        for name, how, source in _ACCESS.findall(text):
            (read if how in ("read", "vector_read", "gather") else changed).add(nodes[name])
            read |= {nodes[source]} if how == "copy" else set()
        self.observed.append((s, read, changed, {nodes[name] for name in _NAMED.findall(text)}))


@pytest.mark.parametrize("name", PROGRAMS)
def test_effects_are_those_of_the_interpreter(name):
    complete = scheduled(name).complete(Machine(vector_bits=256, cores=4))
    nest = lower(complete.graph, complete.variants())
    for each in (nest, form_gangs(nest, 256)):
        observed = Observed(each).observed
        assert observed
        for s, read, changed, named in observed:
            assert {access.buffer for access in writes(s)} == changed, s
            assert isinstance(s, Prefetch) or {access.buffer for access in reads(s)} == read, s
            assert touched(s) == read | changed | {access.buffer for access in reads(s)}
            assert {node for node in binds(s) if not isinstance(node, Buffer)} <= named, s
            assert not isinstance(s, Let) or named == {s.var}


def test_every_kind_of_statement_says_what_it_writes():
    assert set(typing.get_args(Statement)) == set(effects._WRITES)


def test_the_effects_of_what_is_inside_are_those_of_a_whole():
    complete = scheduled("updates/weights private").complete(Machine(cores=4))
    nest = lower(complete.graph, complete.variants())
    assert set(nest.outputs) <= written(nest.body)
    assert set(nest.inputs) <= touched(nest.body) - written(nest.body)
