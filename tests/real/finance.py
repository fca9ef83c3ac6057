"""Prices by formula, by trees and by Monte Carlo; random numbers come from counters, so that each is independent of the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special
from real.registry import real

import raido as rd

rng = np.random.default_rng(4)


def _options(n: int) -> tuple[np.ndarray, ...]:
    return 50 + 50 * rng.random(n), 50 + 50 * rng.random(n), 0.1 + rng.random(n)


def _black_scholes(spot: np.ndarray, strike: np.ndarray, years: np.ndarray) -> tuple[np.ndarray, ...]:
    rate, volatility = 0.02, 0.3
    spread = volatility * np.sqrt(years)
    d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    normal = lambda x: 0.5 * scipy.special.erfc(-x / np.sqrt(2))
    discounted = strike * np.exp(-rate * years)
    call = spot * normal(d1) - discounted * normal(d1 - spread)
    return call, call - spot + discounted


@real(_black_scholes, *(_options(n) for n in (0, 1, 33, 1000)), tolerance=1e-12)
def black_scholes(spot: rd.f64["n"], strike: rd.f64["n"], years: rd.f64["n"]):
    """European calls and puts."""
    rate, volatility = 0.02, 0.3

    def price(s, k, t):
        spread = volatility * rd.sqrt(t)
        d1 = (rd.log(s / k) + (rate + volatility**2 / 2) * t) / spread
        normal = lambda x: 0.5 * rd.erfc(-x / np.sqrt(2))
        discounted = k * rd.exp(-rate * t)
        call = s * normal(d1) - discounted * normal(d1 - spread)
        return call, call - s + discounted

    return rd.map(price, spot, strike, years)


STEPS = 32


def _american_put(spot: np.ndarray, strike: np.ndarray, years: np.ndarray) -> np.ndarray:
    prices = []
    for s, k, t in zip(spot, strike, years, strict=True):
        step = t / STEPS
        up = np.exp(0.3 * np.sqrt(step))
        p, discount = (np.exp(0.02 * step) - 1 / up) / (up - 1 / up), np.exp(-0.02 * step)
        leaf = lambda level, s=s, up=up: s * up ** (2.0 * np.arange(level + 1) - level)
        value = np.maximum(k - leaf(STEPS), 0)
        for level in range(STEPS - 1, -1, -1):
            value = np.maximum(discount * (p * value[1:] + (1 - p) * value[:-1]), k - leaf(level))
        prices.append(value[0])
    return np.array(prices)


@real(_american_put, *(_options(n) for n in (1, 20)), tolerance=1e-11)
def binomial_tree(spot: rd.f64["n"], strike: rd.f64["n"], years: rd.f64["n"]):
    """American puts; the values at one level of an option's tree are the state of a loop of its own."""

    def price(s, k, t):
        step = t / STEPS
        up = rd.exp(0.3 * rd.sqrt(step))
        p, discount = (rd.exp(0.02 * step) - 1 / up) / (up - 1 / up), rd.exp(-0.02 * step)
        gain = lambda level, i: k - s * rd.power(up, 2.0 * rd.f64(i) - rd.f64(level))

        def back(t, value):
            level = STEPS - 1 - t
            # beyond the level the row holds what nobody reads
            next_up = lambda i: value[rd.minimum(i + 1, STEPS)]
            held = lambda i: discount * (p * next_up(i) + (1 - p) * value[i])
            return rd.tabulate(STEPS + 1, lambda i: rd.maximum(held(i), gain(level, i)))

        leaves = rd.tabulate(STEPS + 1, lambda i: rd.maximum(gain(STEPS, i), 0.0))
        return rd.loop(STEPS, back, leaves)[0]

    return rd.map(price, spot, strike, years)


def _mixed(x: np.ndarray) -> np.ndarray:
    """splitmix64 of counters."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _uniform(counters: np.ndarray) -> np.ndarray:
    return (_mixed(counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mixed(x: Any) -> Any:
    """splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014)."""
    x = x + rd.u64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> 30)) * rd.u64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> 27)) * rd.u64(0x94D049BB133111EB)
    return x ^ (x >> 31)


def uniform(counter: Any) -> Any:
    """A number in 0 … 1 for each counter."""
    return (mixed(counter) >> 11).astype(rd.f64) * 2.0**-53


def _pi(n: int) -> Any:
    counters = np.arange(2 * n, dtype=np.uint64)
    x, y = _uniform(counters[0::2]), _uniform(counters[1::2])
    return np.int64((x * x + y * y < 1).sum())


@real(_pi, (0,), (1,), (5000,))
def monte_carlo_pi(n: rd.size):
    """How many of n points fall into the quarter of a circle."""

    def inside(i):
        x, y = uniform(2 * rd.u64(i)), uniform(2 * rd.u64(i) + 1)
        return rd.i64(x * x + y * y < 1)

    return rd.sum(rd.tabulate(n, inside))


def _asian(n: int, spot: Any) -> Any:
    total = np.full(n, float(spot))
    sums = np.zeros(n)
    for k in range(8):
        c = (np.arange(n, dtype=np.uint64) * np.uint64(16)) + np.uint64(2 * k)
        u, v = _uniform(c), _uniform(c + np.uint64(1))
        normal = np.sqrt(-2 * np.log(1 - u)) * np.cos(2 * np.pi * v)
        total = total * np.exp((0.02 - 0.045) / 8 + 0.3 * np.sqrt(1 / 8) * normal)
        sums += total
    return np.mean(np.maximum(sums / 8 - 100, 0)) * np.exp(-0.02)


@real(_asian, (1, np.float64(120)), (3000, np.float64(100)), tolerance=1e-11)
def monte_carlo_option(n: rd.size, spot: rd.f64):
    """An Asian call: the mean of eight prices on each of n paths (Box and Muller's normal numbers)."""

    def path(i):
        def day(k, state):
            price, total = state
            counter = 16 * rd.u64(i) + rd.u64(2 * k)
            size = rd.sqrt(-2 * rd.log(1 - uniform(counter)))
            normal = size * rd.cos(2 * np.pi * uniform(counter + 1))
            price = price * rd.exp((0.02 - 0.045) / 8 + 0.3 * np.sqrt(1 / 8) * normal)
            return price, total + price

        total = rd.loop(8, day, (spot, 0.0))[1]
        return rd.maximum(total / 8 - 100, 0.0)

    return rd.mean(rd.tabulate(n, path)) * np.exp(-0.02)
