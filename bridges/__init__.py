"""Bridges from the dataspace to the world outside: the command line, and agent runtimes that host engines.

A bridge may import `engines` and `dataspace`; neither knows of any bridge.
"""

__all__: list[str] = []
