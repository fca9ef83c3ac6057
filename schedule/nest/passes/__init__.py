"""Passes over the scalar nest: loop interchange and fusion over rows, states in registers, loops that skip what does not change."""
