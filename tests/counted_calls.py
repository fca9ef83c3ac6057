"""Counts of calls of Python functions: the cost of compiling, independent of other work on the machine."""

import sys


def calls_of(action):
    """How many functions of Python an action calls."""
    found = 0

    def count(frame, event, argument):
        nonlocal found
        found += event == "call"

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return found
