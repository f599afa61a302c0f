"""The plugin as a directory: copy this one to `$HERMES_HOME/plugins/dataspace`; the package itself is installed beside it."""

from bridges.hermes.plugin import register

__all__ = ["register"]
