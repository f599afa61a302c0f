"""Naive models, paired with the real thing; the model is the spec."""
