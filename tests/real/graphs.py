"""Graphs, sparse matrices, clusters and bins: irregular data as offsets and segments."""

from __future__ import annotations

import itertools
from collections import deque
from typing import Any

import numpy as np
import scipy.sparse
from real.registry import real

import raido as rd

rng = np.random.default_rng(2)


def _csr(n: int, edges: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and targets of a random graph."""
    random = np.random.default_rng(seed)
    sources, targets = random.integers(0, n, (2, edges)) if n else np.zeros((2, 0), int)
    order = np.argsort(sources, kind="stable")
    return np.searchsorted(sources[order], np.arange(n + 1)).astype(np.int64), targets[order].astype(np.int64)


def _bfs(offsets: np.ndarray, targets: np.ndarray, start: Any) -> np.ndarray:
    levels = np.full(len(offsets) - 1, -1)
    levels[start] = 0
    queue = deque([int(start)])
    while queue:
        v = queue.popleft()
        for w in targets[offsets[v] : offsets[v + 1]]:
            if levels[w] < 0:
                levels[w] = levels[v] + 1
                queue.append(int(w))
    return levels


@real(_bfs, *((*_csr(n, e, n), np.int64(0)) for n, e in ((1, 0), (2, 1), (30, 50), (300, 400))))
def breadth_first_search(offsets: rd.i64["v"], targets: rd.i64["e"], start: rd.i64):
    """Levels from a start; the frontier is an array whose size changes from iteration to iteration."""
    vertices = offsets.shape[0] - 1

    def expand(state):
        levels, frontier, depth = state
        counts = offsets[frontier + 1] - offsets[frontier]
        begins = offsets[frontier] - rd.scan(rd.add, 0, counts, exclusive=True)
        edges = rd.repeat(begins, counts)
        reached = targets[edges + rd.iota(edges.shape[0])]
        fresh = rd.unique(rd.filter(lambda w: levels[w] < 0, reached))
        return levels.at[fresh].set(depth + 1), fresh, depth + 1

    levels = rd.replicate(vertices, rd.i64(-1)).at[start].set(0)
    return rd.while_loop(lambda s: s[1].shape[0] > 0, expand, (levels, start[None], rd.i64(0)))[0]


def _sparse(rows: int, columns: int, seed: int, skewed: bool) -> tuple[np.ndarray, ...]:
    """A CSR matrix; skewed: one row holds half of its elements."""
    random = np.random.default_rng(seed)
    sizes = random.integers(0, 5, rows)
    if skewed and rows:
        sizes[rows // 2] = max(1, sizes.sum())
    offsets = np.append(0, np.cumsum(sizes))
    return random.random(offsets[-1]), random.integers(0, columns, offsets[-1]), offsets, random.random(columns)


def _spmv(values: np.ndarray, columns: np.ndarray, offsets: np.ndarray, x: np.ndarray) -> np.ndarray:
    return scipy.sparse.csr_matrix((values, columns, offsets), (len(offsets) - 1, len(x))) @ x


SPARSE = tuple(_sparse(r, c, r, s) for r, c, s in ((0, 3, False), (1, 1, False), (40, 30, True), (900, 70, True)))


@real(_spmv, *SPARSE, tolerance=1e-13)
def spmv(values: rd.f64["k"], columns: rd.i64["k"], offsets: rd.i64["r"], x: rd.f64["n"]):
    """A sparse matrix times a vector, by segments."""
    return rd.segmented_reduce(rd.add, 0, values * x[columns], offsets)


@real(_spmv, *SPARSE, tolerance=1e-13)
def spmv_by_rows(values: rd.f64["k"], columns: rd.i64["k"], offsets: rd.i64["r"], x: rd.f64["n"]):
    """The same with a loop for each row."""

    def row(i):
        start = offsets[i]
        add = lambda k, total: total + values[start + k] * x[columns[start + k]]
        return rd.loop(offsets[i + 1] - start, add, 0.0)

    return rd.tabulate(offsets.shape[0] - 1, row)


def _pagerank(offsets: np.ndarray, targets: np.ndarray, iterations: Any) -> np.ndarray:
    n = len(offsets) - 1
    degree = np.bincount(targets, minlength=n)
    rank = np.full(n, 1 / n)
    for _ in range(int(iterations)):
        share = np.where(degree > 0, rank / np.maximum(degree, 1), 0)
        lost = rank[degree == 0].sum()
        sums = np.array([share[targets[a:b]].sum() for a, b in itertools.pairwise(offsets)])
        rank = 0.15 / n + 0.85 * (sums + lost / n)
    return rank


@real(_pagerank, *((*_csr(n, e, n), np.int64(20)) for n, e in ((1, 0), (10, 30), (200, 900))), tolerance=1e-12)
def pagerank(offsets: rd.i64["v"], sources: rd.i64["e"], iterations: rd.i64):
    """Pages in the order of their incoming links, which are segments; what pages without links have goes to all."""
    n = offsets.shape[0] - 1
    pages = rd.f64(n)
    degree = rd.bincount(sources, n)

    def step(_, rank):
        share = rd.where(degree > 0, rank / rd.maximum(degree, 1), 0.0)
        lost = rd.sum(rd.where(degree == 0, rank, 0.0))
        sums = rd.segmented_reduce(rd.add, 0, share[sources], offsets)
        return 0.15 / pages + 0.85 * (sums + lost / pages)

    return rd.loop(iterations, step, rd.full(n, 1 / pages))


def _k_means(points: np.ndarray, centers: np.ndarray, iterations: Any) -> Any:
    nearest = np.zeros(len(points), int)
    for _ in range(int(iterations)):
        nearest = ((points[:, None] - centers[None]) ** 2).sum(axis=2).argmin(axis=1)
        sums, counts = np.zeros_like(centers), np.bincount(nearest, minlength=len(centers))
        np.add.at(sums, nearest, points)
        centers = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
    return centers, nearest


def _clusters(n: int, k: int) -> tuple[np.ndarray, ...]:
    points = rng.normal(size=(n, 3)) + rng.integers(0, 4, (n, 1)) * 10
    return points, points[:k].copy(), np.int64(5)


@real(_k_means, *(_clusters(n, k) for n, k in ((1, 1), (20, 3), (500, 7))), tolerance=1e-12)
def k_means(points: rd.f64["n", 3], centers: rd.f64["k", 3], iterations: rd.i64):
    """Lloyd's algorithm: the nearest center of every point, then the mean of each cluster, a histogram of rows."""
    k = centers.shape[0]

    def closest(centers):
        distance = lambda p: rd.map(lambda c: rd.sum((p - c) * (p - c)), centers)
        return rd.map(lambda p: rd.argmin(distance(p)), points)

    def step(_, state):
        centers, _ = state
        nearest = closest(centers)
        sums = rd.reduce_by_index(rd.full((k, 3), 0.0), rd.add, 0, nearest, points)
        counts = rd.bincount(nearest, k)
        means = rd.where(counts[:, None] > 0, sums / rd.maximum(counts, 1)[:, None], centers)
        return means, nearest

    return rd.loop(iterations, step, (centers, rd.full(points.shape[0], rd.i64(0))))


def _binned(places: np.ndarray, cells: int) -> tuple[np.ndarray, ...]:
    cell = np.minimum((places * cells).astype(int), cells - 1)
    bins = cell[:, 0] * cells + cell[:, 1]
    order = np.argsort(bins, kind="stable")
    offsets = np.append(0, np.cumsum(np.bincount(bins, minlength=cells * cells)))
    sums = [places[order][a:b].sum(axis=0) for a, b in itertools.pairwise(offsets)]
    return order, offsets, np.reshape(sums, (-1, 2))


@real(_binned, *((rng.random((n, 2)), c) for n, c in ((0, 1), (7, 2), (800, 6))), tolerance=1e-13)
def particle_bins(places: rd.f64["n", 2], cells: rd.size):
    """Particles in the order of the cells of a grid, where each cell begins, and the sum of the places in each."""
    cell = rd.minimum((places * rd.f64(cells)).astype(rd.i64), cells - 1)
    bins = cell[:, 0] * cells + cell[:, 1]
    order = rd.argsort(bins)
    counts = rd.bincount(bins, cells * cells)
    offsets = rd.concat([rd.array([rd.i64(0)]), rd.scan(rd.add, 0, counts)])
    return order, offsets, rd.segmented_reduce(rd.add, 0, places[order], offsets)
