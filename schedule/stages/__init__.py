"""Forms the stages of a program: closed loop nests, the units of schedules, and the reads between them."""
