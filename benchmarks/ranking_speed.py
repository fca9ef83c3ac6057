"""The cost of making a candidate, its nest and its features, for the programs of `tuning_corpus.py`, in milliseconds of one processor.

`python benchmarks/ranking_speed.py [PROGRAM …]` also prints the number of dropped candidates, and why.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tuning_corpus import PROGRAMS, CorpusProgram

from raido.algo.errors import ScheduleError
from raido.algo.passes.specialise import specialise
from raido.autotune.features import features_of
from raido.autotune.space import Space
from raido.schedule.lower import lower
from raido.schedule.schedule import Schedule
from raido.schedule.stages.form_stages import form_stages
from raido.targets.target import Target

COUNT = 24


def costs(program: CorpusProgram) -> str:
    """One line: half of the candidates are drawn at random, half are mutants of the default schedule."""
    machine = Target("llvm").machine
    graph = form_stages(specialise(program.algorithm.trace(*program.arguments()), program.sizes))
    space, rng = Space(Schedule(graph), machine, program.sizes), random.Random(0)
    start = space.spell_out(space.default())
    made = lowered = seen = 0.0
    dropped: Counter[str] = Counter()
    for number in range(COUNT):
        times = [time.process_time()]
        candidate = space.sample(rng) if number % 2 else space.mutate(start, rng)
        times.append(time.process_time())
        made += times[1] - times[0]
        try:
            nest = lower(candidate.schedule.graph, candidate.schedule.variants())
        except ScheduleError as error:
            dropped[str(error).splitlines()[0]] += 1
            continue
        times.append(time.process_time())
        features_of(nest, machine, space.sizes)
        lowered += times[2] - times[1]
        seen += time.process_time() - times[2]
    numbers = " | ".join(f"{1000 * each / COUNT:.1f}" for each in (made, lowered, seen))
    a_minute = round(60 * COUNT / (made + lowered + seen), -2)
    reasons = "; ".join(f"{count} {why}" for why, count in dropped.items())
    return f"| {program.name} | {len(graph.stages)} | {numbers} | {a_minute:.0f} | {reasons} |"


if __name__ == "__main__":
    print(
        "| program | stages | candidate | nest | features | ranked in a minute | dropped |\n|---|---|---|---|---|---|---|"
    )
    for each in PROGRAMS:
        if len(sys.argv) == 1 or each.name in sys.argv[1:]:
            print(costs(each), flush=True)
