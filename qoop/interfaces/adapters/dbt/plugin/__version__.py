"""The version that dbt prints."""

from qoop import __version__ as version

__all__ = ["version"]
