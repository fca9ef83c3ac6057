"""The default loops and strategies of stages on a GPU."""
