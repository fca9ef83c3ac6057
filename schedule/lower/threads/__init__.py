"""Code that the threads of a GPU block run together: folds, scans, ranks and copies through shared memory."""
