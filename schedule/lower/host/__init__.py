"""The program around its stages: root stages in order, whole-array loops, memory that changes hands, checks of sizes."""
