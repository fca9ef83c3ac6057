"""raido: a scheduling language for tensor and array programs."""
