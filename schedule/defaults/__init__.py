"""The default schedule: rules that decide what the user left open."""
