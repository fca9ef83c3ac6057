"""What loops cost on a machine: the analytical model that the tuner's features and the default schedule share."""
