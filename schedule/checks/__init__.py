"""What holds of a schedule whatever else is said: refusals that no single directive can make."""
