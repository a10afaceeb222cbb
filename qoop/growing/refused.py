"""The reason why a query cannot grow, on its way to who asked."""


class Refused(Exception):
    """The query cannot grow, for the reason that it says."""
