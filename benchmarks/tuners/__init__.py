"""Tuners side by side: raido's, the autoschedulers of Halide, and TVM's MetaSchedule, on the rows and on programs new to raido's model."""
