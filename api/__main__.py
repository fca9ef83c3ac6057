"""`python -m raido`: the command line, for a Python whose `raido` command is not on the path."""

from raido.cli import main

if __name__ == "__main__":
    main()
