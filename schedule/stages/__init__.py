"""From a program to stages: the closed boxes of indices that schedules speak about, and who reads whom."""
