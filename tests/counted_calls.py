"""Counts of calls of Python functions: the cost of compiling, independent of other work on the machine."""

import gc
import sys


def calls_of(action):
    """How many functions of Python an action calls; garbage that others left is collected before, since callbacks are calls too."""
    found = 0
    gc.collect()

    def count(frame, event, argument):
        nonlocal found
        found += event == "call"

    gc.disable()
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
        gc.enable()
    return found
