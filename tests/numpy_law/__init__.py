"""The law against NumPy: random programs in NumPy's language, run by raido, against NumPy itself (`law.check`)."""
