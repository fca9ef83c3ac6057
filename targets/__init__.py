"""On what it runs: loop nest to machine code, executables, export."""
