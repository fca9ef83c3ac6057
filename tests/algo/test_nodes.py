"""Interning: equal nodes are one object, whoever makes them, for as long as it is referenced."""

import gc
import threading
import weakref
from dataclasses import fields

import pytest

from raido.algo.graph import node as nodes
from raido.algo.graph.dtypes import f32, i64
from raido.algo.graph.expr import Const, Op, const, fresh
from raido.schedule.nest.values import Buffer, Read


def test_equal_nodes_are_one_and_have_their_fields():
    x, y = fresh("x"), fresh("y")
    total = Op("add", i64, (x, y))
    assert total is Op("add", i64, (x, y)) and total is not Op("add", i64, (y, x))
    assert (total.name, total.dtype, total.args) == ("add", i64, (x, y))
    assert all(hasattr(total, field.name) for field in fields(Op))
    buffer = Buffer("a", f32, (x,), "heap", 1, (), 1, None)
    read = Read(buffer, (x,), None)
    assert read is Read(buffer, (x,), None) and (read.buffer, read.indices, read.predicate) == (buffer, (x,), None)


def test_a_node_with_too_few_or_too_many_fields_is_none():
    for fields_given in ((), ("add",), ("add", i64, (), ())):
        with pytest.raises(TypeError):
            Op(*fields_given)


def test_threads_that_make_equal_nodes_get_the_same_one():
    x, start, count = fresh("x"), threading.Barrier(4), 3000
    made = [[], [], [], []]

    def work(k):
        start.wait()
        for value in range(count):
            made[k].append(Op("add", i64, (x, const(i64, value))))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len({id(own[value]) for own in made}) == 1 for value in range(count))


def test_the_entry_of_a_node_that_is_no_more_is_taken_over():
    key = (Const, i64, 123456789)
    gone = Const(i64, 123456789)
    dead = nodes._Reference(gone)  # as where its callback has yet to run
    dead.key = key
    nodes._references[key] = dead
    del gone
    gc.collect()
    assert nodes._references[key] is dead and dead() is None
    made = Const(i64, 123456789)
    assert made is Const(i64, 123456789) and nodes._references[key]() is made
    watched = weakref.ref(made)
    del made
    assert watched() is None and key not in nodes._references
