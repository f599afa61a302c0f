"""The `hermes-dataspace` command.

    session file ──▶ session ──▶ replay ──facts──▶ story ──▶ result, lines, screen
                     (checked)   (the loop, engines)  (observers; they decide nothing)

`app` says what can be said on the command line; each subcommand there is a few lines on top of the modules above.
click and rich come with the extra `cli`, and are imported when the command runs.
"""

from .main import main

__all__ = ["main"]
