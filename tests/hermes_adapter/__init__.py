"""The adapter in the real host: a model that is told what to say, and scenes played by real agents."""
