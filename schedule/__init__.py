"""How it runs: schedules, legality, and the lowering of Program + Schedule to loop nests."""
