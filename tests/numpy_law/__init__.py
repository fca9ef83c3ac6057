"""The differential test against NumPy: random programs in NumPy's language, run by raido, against NumPy itself (`law.check`)."""
