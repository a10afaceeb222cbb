"""The options of DuckDB that change results: the only ones that a text can set, or ask for where it is locked."""

from __future__ import annotations

CHANGES_RESULTS = (
    "Calendar",
    "TimeZone",
    "default_collation",
    "default_null_order",
    "default_order",
    "error_on_division_by_zero",
    "ieee_floating_point_ops",
    "integer_division",
    "legacy_disable_null_type",
    "old_implicit_casting",
    "order_by_non_integer_literal",
    "regex_match_operator_semantics",
    "scalar_subquery_error_on_multiple_rows",
)
