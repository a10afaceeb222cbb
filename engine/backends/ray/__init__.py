"""Machines that are the nodes of a Ray cluster. Needs the extra ``qoop[ray]``."""
