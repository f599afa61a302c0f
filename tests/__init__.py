"""The tests; `tests/README.md` says where what goes."""
