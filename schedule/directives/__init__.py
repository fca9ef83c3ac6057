"""All schedule directives, one family a file. A new directive is a method and a rule in a family's file (or in a new file, named here)."""

from raido.schedule.directives.copies import CopyDirectives
from raido.schedule.directives.hints import HintDirectives
from raido.schedule.directives.kinds import KindDirectives
from raido.schedule.directives.levels import LevelDirectives
from raido.schedule.directives.loops import LoopDirectives
from raido.schedule.directives.matrices import MatrixDirectives
from raido.schedule.directives.placement import PlacementDirectives
from raido.schedule.directives.recorder import RULES
from raido.schedule.directives.sharing import SharingDirectives
from raido.schedule.directives.strategy import StrategyDirectives
from raido.schedule.directives.time_tiles import TimeTileDirectives


class Directives(
    LoopDirectives,
    KindDirectives,
    LevelDirectives,
    MatrixDirectives,
    PlacementDirectives,
    SharingDirectives,
    CopyDirectives,
    HintDirectives,
    StrategyDirectives,
    TimeTileDirectives,
):
    """All directives of one stage."""

    __slots__ = ()


__all__ = ["RULES", "Directives"]
