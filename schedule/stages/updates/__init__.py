"""Arrays that change in place: which reader takes over an array, and the part of it that changes."""
