"""`strategy`: what loop directives cannot say. The stages of today (maps, stencils, reductions) leave nothing over for it."""

from __future__ import annotations

from raido.schedule.directives.recorder import Name, Number, Recorder, Self, rule
from raido.schedule.refusal import Refusal
from raido.schedule.state import State


class StrategyDirectives(Recorder):
    """Directives for what loops cannot say."""

    __slots__ = ()

    def strategy(self: Self, name: Name, /, **numbers: Number) -> Self:
        """Chooses among the ways to run a stage that differ in more than loops; `stage.strategies()` lists them.

        name: one of those listed; numbers: its parameters.

        >>> blur.schedule()["cols"].strategies()
        {}

        Refuses maps, stencils and reductions, which have none: vectorizing or parallelizing a reduction axis makes partials.
        """
        return self._record("strategy", name=name, **numbers)


@rule('choose strategy "{name}" for stage "{stage}"')
def apply_strategy(state: State, stage: str, /, name: str, **numbers: int) -> State:
    whole = state.stage(stage)
    if whole.reduction is not None:
        raise Refusal(
            "a reduction needs none: vectorizing or parallelizing a reduction axis makes partials",
            f'parallel("{whole.reduction_axes[0].name}") or vectorize("{whole.reduction_axes[-1].name}")',
            strategies="none",
        )
    raise Refusal("loop directives say everything about it", strategies="none")
