"""Scans, filters, updates, sorts and segmented folds by the strategy that the schedule names."""
