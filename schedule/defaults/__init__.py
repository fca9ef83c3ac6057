"""The default schedule: what is said of a stage when the user says nothing, by rules that are stated."""
