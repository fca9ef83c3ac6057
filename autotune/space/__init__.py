"""The search space of schedules for a program: `Space`, its decisions and candidates."""

from raido.autotune.space.identity import key_of
from raido.autotune.space.space import Candidate, Space
from raido.autotune.space.walk import Decision

__all__ = ["Candidate", "Decision", "Space", "key_of"]
