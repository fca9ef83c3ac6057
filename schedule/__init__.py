"""The schedule language: schedules as data, their legality, and the lowering of a `Program` and its schedule to loop nests."""
