"""The real Hermes agent in tests: a scripted server for it to talk to, and the recorder of sessions."""
