"""Strategies: the table of them, their parameters, and the parts that take directives of their own."""
