"""The words of the random queries: types with their values, and what expressions of each kind look like.

A kind is what may stand in one place: ``number``, ``text``, ``moment`` and ``truth`` for families of types, and every
other type for itself. In a template, ``{n}``, ``{t}``, ``{m}``, ``{b}`` or ``{TYPE}`` stands for a value of that
kind, ``{N}``, ``{T}``, ``{M}`` for a literal, ``{any}`` for a value of any kind and ``{same}`` for one of the kind
itself. ``{d}`` may be DISTINCT. A digit means the same text again. For windows there are ``{part}``, ``{col}``, ``{num}``,
``{when}``, ``{dir}``, ``{frame}``, ``{range}``, ``{span}`` and ``{total}``, which is a total order.

One answer is right for each text: sums are of numbers that add up exactly, and what depends on the order of rows is
given a total one. ``INEXACT`` has the rest, for values that nothing but the comparison sees.
"""

# ruff: noqa: E501  (a kind's templates stand together)

from __future__ import annotations

NUMBER, TEXT, MOMENT, TRUTH = "number", "text", "moment", "truth"
FAMILIES = (NUMBER, TEXT, MOMENT, TRUTH)

_WHOLE = ("0", "1", "1", "2", "3", "5", "7", "-1", "-3")
_NATURAL = ("0", "1", "1", "2", "3", "5", "7")
_FLOAT = ("0", "1", "2", "0.5", "-1.5", "3", "100.25", "'nan'", "'inf'", "'-inf'")
_SPLIT = ("0", "1", "1.5", "2", "-1.2", "3", "5")
_DAYS = ("'2020-02-27'", "'2020-02-28'", "'2020-02-29'", "'2020-03-01'", "'2019-12-31'")
_TIMES = ("'2020-02-28'", "'2020-02-28 12:00:00'", "'2020-02-29'", "'2020-03-01 23:59:59'", "'1969-12-31 10:00:00'")
_WORDS = ("''", "'a'", "'A'", "'ab'", "'abc'", "'b'", "'x%'", "'x_y'", "'zoë'", "'  pad'", "'10'", "'2'", "'NULL'")
COLOUR = "ENUM('green', 'red', 'blue')"
PAIR = "STRUCT(a INTEGER, b VARCHAR)"
UNION = "UNION(num INTEGER, str VARCHAR)"
MAPPED = "MAP(VARCHAR, INTEGER)"
CASED = 'STRUCT("A b" DOUBLE, "Ü" VARCHAR[])'
NESTED = "STRUCT(n INTEGER[], p STRUCT(q VARCHAR))[]"

TYPES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"), _WHOLE),
    **dict.fromkeys(("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"), _NATURAL),
    **dict.fromkeys(("FLOAT", "DOUBLE"), _FLOAT),
    **dict.fromkeys(("DECIMAL(4,1)", "DECIMAL(9,2)", "DECIMAL(18,3)", "DECIMAL(30,4)", "DECIMAL(1,0)", "DECIMAL(38,9)"), _SPLIT),
    "VARCHAR": _WORDS,
    "BOOLEAN": ("true", "false"),
    "DATE": _DAYS,
    "TIMESTAMP": _TIMES,
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), _TIMES),
    "TIMESTAMP WITH TIME ZONE": ("'2020-02-28 00:00:00+00'", "'2020-02-28 12:00:00+00'", "'2020-07-01 00:00:00+00'"),
    "TIME": ("'00:00:00'", "'12:00:00'", "'23:59:59.5'"),
    "TIME WITH TIME ZONE": ("'00:00:00+00'", "'12:00:00+00'", "'23:59:59+00'"),
    "INTERVAL": ("'1 day'", "'2 days'", "'1 month'", "'3 hours'", "'-1 day'"),
    "UUID": ("'00000000-0000-0000-0000-000000000001'", "'ffffffff-0000-0000-0000-000000000002'", "'80000000-0000-0000-0000-000000000000'"),
    "BLOB": ("'a'", "'ab'", "'\\x00'", "''"),
    "BIT": ("'101'", "'1'", "'0'", "'1010101010'"),
    COLOUR: ("'green'", "'red'", "'blue'"),
    "INTEGER[]": ("[]", "[1]", "[1, NULL]", "[2, 1]", "[NULL]", "[3, 3, 3]"),
    "VARCHAR[]": ("[]", "['a']", "['a', 'b']", "[NULL, 'A']"),
    "INTEGER[2]": ("[1, 2]", "[1, NULL]", "[2, 1]"),
    PAIR: ("{'a': 1, 'b': 'x'}", "{'a': NULL, 'b': 'y'}", "{'a': 2, 'b': NULL}", "{'a': 1, 'b': 'a'}"),
    MAPPED: ("MAP {}", "MAP {'k': 1}", "MAP {'k': 2, 'l': NULL}", "MAP {'l': 1}"),
    UNION: ("union_value(num := 1)", "union_value(str := 'a')", "union_value(num := 2)", "union_value(str := '1')"),
    NESTED: ("[]", "[{'n': [1], 'p': {'q': 'a'}}]", "[{'n': NULL, 'p': NULL}, NULL]", "[{'n': [], 'p': {'q': NULL}}]"),
    CASED: ("{'A b': 1, 'Ü': ['x']}", "{'A b': 'nan', 'Ü': NULL}", "{'A b': NULL, 'Ü': []}", "{'A b': '-inf', 'Ü': [NULL]}"),
    "DOUBLE[]": ("[]", "[1.5, NULL]", "['nan'::DOUBLE, 1]", "['-inf'::DOUBLE, 'inf', 0]", "[2, 1]"),
    "INTEGER[][]": ("[]", "[[1], NULL, []]", "[[]]", "[[2, 1], [NULL]]"),
    "MAP(INTEGER, VARCHAR[])": ("MAP {}", "MAP {1: ['a']}", "MAP {2: NULL, 1: []}", "MAP {1: [NULL, 'b']}"),
    "JSON": ("'{\"a\": 1}'", "'[1, null]'", "'null'", "'\"x\"'", "'7'"),
}  # fmt: skip

EXTREMES: dict[str, tuple[str, ...]] = {
    "TINYINT": ("-128", "127"), "SMALLINT": ("-32768", "32767"), "INTEGER": ("-2147483648", "2147483647"),
    "BIGINT": ("-9223372036854775808", "9223372036854775807"), "UBIGINT": ("18446744073709551615",),
    "HUGEINT": ("-170141183460469231731687303715884105728", "170141183460469231731687303715884105727"),
    "UHUGEINT": ("340282366920938463463374607431768211455",), "UTINYINT": ("255",), "UINTEGER": ("4294967295",),
    "DOUBLE": ("1.7976931348623157e308", "'-0.0'", "5e-324"), "FLOAT": ("3.4028235e38", "'-0.0'", "1e-45"),
    "DATE": ("'infinity'", "'-infinity'", "'0044-03-15 (BC)'", "'5881580-07-10'"),
    "TIMESTAMP": ("'infinity'", "'-infinity'", "'290309-12-22 (BC) 00:00:00'", "'294247-01-10 04:00:54.775806'"),
    "TIME": ("'24:00:00'", "'00:00:00.000001'"), "DECIMAL(38,9)": ("99999999999999999999999999999.999999999",),
    "TIMESTAMP WITH TIME ZONE": ("'infinity'", "'0044-03-15 (BC) 12:00:00+00'"),
}  # fmt: skip
"""The ends of a type's values."""

_FAMILY = {"VARCHAR": TEXT, "BOOLEAN": TRUTH, "DATE": MOMENT, "TIMESTAMP": MOMENT}
_NUMBERS = ("INT", "FLOAT", "DOUBLE", "DECIMAL")


def kind_of(type_: str) -> str:
    """The kind of a type's values."""
    if type_ in _FAMILY:
        return _FAMILY[type_]
    return NUMBER if any(word in type_ for word in _NUMBERS) and type_.isascii() and _is_plain(type_) else type_


def _is_plain(type_: str) -> bool:
    return not type_.endswith("]") and not type_.startswith(("STRUCT", "MAP", "UNION", "INTERVAL"))


ODD = tuple(type_ for type_ in TYPES if kind_of(type_) == type_)
"""The types that are kinds of their own."""

LITERALS: dict[str, tuple[str, ...]] = {
    NUMBER: ("1", "0", "2", "3", "5", "-1", "1.5", "2.00", "1e0", "7", "0.5::FLOAT", "2::UTINYINT", "3::HUGEINT"),
    TEXT: ("'a'", "''", "'A'", "'ab'", "'zoë'", "'2'", "'x%'"),
    MOMENT: ("DATE '2020-02-28'", "TIMESTAMP '2020-02-29 12:00:00'", "DATE '2020-03-01'", "DATE '2020-02-29'"),
    TRUTH: ("true", "false"),
    **{kind: tuple(f"{value}::{kind}" for value in TYPES[kind]) for kind in ODD},
}
LEAST = {kind: values[0] for kind, values in LITERALS.items()}

VALUES: dict[str, tuple[str, ...]] = {
    NUMBER: (
        "({n} + {n})", "({n} - {n})", "({n} * {N})", "(- {n})", "abs({n})", "length({t})", "year({m})", "day({m})",
        "({n} / 2)", "({n} / 0)", "({n} % 3)", "({n} // 2)", "TRY_CAST({n} AS INTEGER)", "TRY_CAST({n} AS BIGINT)",
        "TRY_CAST({n} AS DECIMAL(12,3))", "{n}::DOUBLE", "{n}::FLOAT", "TRY_CAST({t} AS INTEGER)", "{b}::INTEGER",
        "TRY_CAST({n} AS UTINYINT)", "TRY_CAST({n} AS HUGEINT)", "round({n}, 1)", "floor({n})", "sign({n})",
        "date_diff('day', {m}, DATE '2020-03-01')", "TRY_CAST({n} AS SMALLINT)", "CAST({t} AS INTEGER)", "dayofweek({m})",
        "len({INTEGER[]})", "({INTEGER[]})[1]", "len({VARCHAR[]})", f"({{{PAIR}}}).a", f"({{{MAPPED}}})['k']",
        f"({{{UNION}}}).num", "list_sum({INTEGER[]})", "bit_count({BIT})", "octet_length({BLOB})", f"len({{{NESTED}}})",
        "extract('hour' FROM {TIME})", "epoch({INTERVAL})", f"cardinality({{{MAPPED}}})", "list_position({VARCHAR[]}, {t})",
        "hour({TIMESTAMP WITH TIME ZONE})", "({n} + 1)", "strpos({t}, {t})", "({INTEGER[2]})[2]", "least({n}, {n})",
        f"({{{NESTED}}})[1].n[1]", "TRY({n} - {n})", "isnan({n}::DOUBLE)::TINYINT", "list_max({INTEGER[]})", "ascii({t})",
        f"enum_code({{{COLOUR}}})", "nullif({n}, {N})", "CASE {n} WHEN {N} THEN {n} WHEN {N} THEN {n} ELSE {n} END",
        f"({{{PAIR}}}).A", f"({{{PAIR}}})['a']", f"struct_extract({{{PAIR}}}, 'A')", f'({{{CASED}}})."a B"', f'({{{CASED}}})."A b"',
        "list_aggregate({INTEGER[]}, 'sum')", "len(list_distinct({INTEGER[]}))", "list_reduce({INTEGER[]}, lambda p, q: p + q, 1)",
        "len([z for z in ({INTEGER[]}) if z > 1])", "({INTEGER[][]})[1][1]", "list_max({DOUBLE[]})", "({DOUBLE[]})[-1]", "greatest({n}, {n})",
        "len(flatten({INTEGER[][]}))", "({MAP(INTEGER, VARCHAR[])})[1][1]::INTEGER", "levenshtein({t}, {t})", "(TRY_CAST({n} AS INTEGER) & 3)",
        "TRY_CAST({n}::VARCHAR AS INTEGER)", "json_array_length({JSON})", "({JSON}->>'a')::INTEGER", "date_part('week', {m})",
        "list_unique({VARCHAR[]})", "len(map_keys({MAP(INTEGER, VARCHAR[])}))", "unicode({t})",
    ),
    TEXT: (
        "({t} || {t})", "upper({t})", "substr({t}, 1, 2)", "trim({t})", "TRY_CAST({n} AS INTEGER)::VARCHAR",
        "concat({t}, '-', {t})", "{b}::VARCHAR", "replace({t}, 'a', 'o')", "left({t}, 1)", "strftime({m}, '%Y-%m')",
        "{m}::DATE::VARCHAR", "typeof({any})", "({VARCHAR[]})[1]", f"({{{PAIR}}}).b", f"{{{COLOUR}}}::VARCHAR",
        "{UUID}::VARCHAR", f"({{{UNION}}}).str", f"union_tag({{{UNION}}})::VARCHAR", "array_to_string({VARCHAR[]}, ',')",
        "{BIT}::VARCHAR", "lpad({t}, 3, '*')", "reverse({t})", "{INTEGER[]}::VARCHAR", "({t})[1:2]", "{TIME}::VARCHAR",
        f"({{{NESTED}}})[1].p.q", "concat_ws('/', {t}, {n}::INTEGER)", "printf('%s', {t})", "dayname({m})", "md5({t})",
        "regexp_replace({t}, '[ab]', 'c', 'g')", "split_part({t}, 'b', 1)", "coalesce({t}, 'none')", "{t}[-1]",
        "hex({BLOB})", "CASE {t} WHEN {T} THEN {t} ELSE 'other' END", "lower({t})",
        f"({{{PAIR}}}).B", f"({{{NESTED}}})[1].P.Q", f'({{{CASED}}}).ü[1]', "({JSON})->>'a'", "json_type({JSON})", "{INTEGER[][]}::VARCHAR",
        "list_aggregate({VARCHAR[]}, 'max')", "array_to_string([upper(z) for z in {VARCHAR[]}], '+')", "format('{{}}', {t})", "{m}::VARCHAR",
    ),
    MOMENT: (
        "({m} + INTERVAL 1 DAY)", "{m}::DATE", "{m}::TIMESTAMP", "date_trunc('month', {m})", "({m} - INTERVAL '2' DAY)",
        "last_day({m})", "({m}::DATE + 1)", "({m} + {INTERVAL})", "{TIMESTAMP_S}::TIMESTAMP", "{TIMESTAMP_NS}::DATE",
        "date_trunc('year', {m})", "TRY_CAST({t} AS DATE)", "make_date(2020, 2, {n}::INTEGER % 9 + 10)",
    ),
    TRUTH: ("({b} AND {b})", "({b} OR {b})", "(NOT {b})", "({n} < {n})", "({t} = {t})", "({n} = {n})", "({m} <= {m})"),
    "INTEGER[]": (
        "list_sort({INTEGER[]})", "list_transform({INTEGER[]}, lambda z: z + 1)", "[TRY_CAST({n} AS INTEGER)]",
        "list_filter({INTEGER[]}, lambda z: z > 1)", "({INTEGER[]} || {INTEGER[]})", "list_slice({INTEGER[]}, 1, 2)",
        "range(2)::INTEGER[]", "[z * 2 for z in ({INTEGER[]}) if z IS NOT NULL]", "flatten({INTEGER[][]})", "flatten([{INTEGER[]}, {INTEGER[]}])",
        "list_transform({INTEGER[]}, lambda z, i: z + i)", "list_sort({INTEGER[]}, 'DESC', 'NULLS FIRST')", "list_resize({INTEGER[]}, 2, 0)",
        "list_sort(list_distinct({INTEGER[]}))", "list_sort(list_intersect({INTEGER[]}, {INTEGER[]}))", "list_prepend(1, {INTEGER[]})",
        "list_select({INTEGER[]}, [1, 3])", "list_where({INTEGER[2]}::INTEGER[], [true, false])", "list_grade_up({INTEGER[]})::INTEGER[]",
        "{INTEGER[2]}::INTEGER[]", "generate_series(1, 3)::INTEGER[]", "map_keys({MAP(INTEGER, VARCHAR[])})", "list_filter({INTEGER[]}, lambda z: z < {n})",
        "{DOUBLE[]}::INTEGER[]",
    ),
    "INTEGER[][]": ("[{INTEGER[]}, {INTEGER[]}]", "list_transform({INTEGER[]}, lambda z: [z])", "list_sort({INTEGER[][]})"),
    "DOUBLE[]": ("list_sort({DOUBLE[]})", "[TRY_CAST({n} AS DOUBLE)]", "list_reverse({DOUBLE[]})", "{INTEGER[]}::DOUBLE[]"),
    "JSON": ("to_json({t})", "to_json({INTEGER[]})", f"to_json({{{PAIR}}})", "json_array({n}, {t})", "json_object('a', {n})", "({JSON}->'a')"),
    "MAP(INTEGER, VARCHAR[])": ("MAP {1: {VARCHAR[]}}", "map_from_entries([(2, {VARCHAR[]})])"),
    CASED: ("{'A b': {n}::DOUBLE, 'Ü': {VARCHAR[]}}", "struct_insert({'A b': 1::DOUBLE}, Ü := {VARCHAR[]})"),
    "VARCHAR[]": ("string_split({t}, 'b')", "[{t}, {t}]", "list_append({VARCHAR[]}, {t})", "list_reverse({VARCHAR[]})"),
    PAIR: ("{'a': TRY_CAST({n} AS INTEGER), 'b': {t}}", f"struct_pack(a := ({{{PAIR}}}).a, b := {{t}})"),
    "BLOB": ("encode({t})",),
    "INTERVAL": ("({INTERVAL} + {INTERVAL})", "({INTERVAL} * 2)"),
    "TIME": ("{m}::TIMESTAMP::TIME",),
    UNION: ("union_value(num := TRY_CAST({n} AS INTEGER))::" + UNION,),
    MAPPED: ("MAP {'k': TRY_CAST({n} AS INTEGER)}", "MAP([{t}::VARCHAR || 'x'], [1])"),
    "BIT": ("({BIT} || {BIT})",),
}  # fmt: skip

ANY = ("coalesce({same}, {same})", "nullif({same}, {same})", "CASE WHEN {b} THEN {same} END", "if({b}, {same}, {same})",
       "CASE WHEN {b} THEN {same} WHEN {b} THEN {same} ELSE {same} END", "ifnull({same}, {same})")  # fmt: skip

TRUTHS = (
    "{n} {op} {N}", "{n} {op} {n}", "{t} {op} {T}", "{t} {op} {t}", "{m} {op} {M}", "{m} {op} {m}", "{b}",
    "{b} IS NOT TRUE", "{any} IS NULL", "{any} IS NOT NULL", "{n} IN ({N}, {N}, {N})", "{n} NOT IN ({N}, {N})",
    "{t} IN ({T}, {T})", "{m} IN ({M}, {M})", "{n} BETWEEN {N} AND {N}", "{t} NOT BETWEEN {T} AND {T}",
    "{t} LIKE 'a%'", "{t} LIKE '%b%'", "{t} NOT LIKE '_'", "{t} ILIKE 'A%'", "{t} LIKE 'x!%%' ESCAPE '!'",
    "{n} IS DISTINCT FROM {n}", "{t} IS NOT DISTINCT FROM {t}", "({n}, {t}) = ({n}, {t})", "({n}, {m}) < ({N}, {M})",
    "starts_with({t}, 'a')", "list_contains({INTEGER[]}, {n}::INTEGER)", "{n} IN (1, NULL)", "isnan({n}::DOUBLE)",
    "regexp_matches({t}, '^[a-b]+$')", "{t} SIMILAR TO 'a.*'", "list_contains({VARCHAR[]}, {t})", "{n} = ANY({INTEGER[]})",
    "list_has_any({VARCHAR[]}, {VARCHAR[]})", "{n}::INTEGER IN [{n}::INTEGER, 2]", "{t} COLLATE NOCASE = {T}", "list_has_all({INTEGER[]}, {INTEGER[]})",
    "{b} IS NOT DISTINCT FROM {b}", "({n}, {t}) IN (({N}, {T}), ({N}, {T}))", "{n}::VARCHAR = {t}", "{n}::VARCHAR < {n}::VARCHAR", "{m}::VARCHAR LIKE '2020-02%'",
    "{t} GLOB 'a*'", "{oddpair}", "{oddpair}",
)  # fmt: skip

AGGREGATES: dict[str, tuple[str, ...]] = {
    NUMBER: (
        "count(*)", "count(*)", "count({d}{any})", "count({d}{any})", "sum({d}{n})", "sum({n})", "sum({n})", "min({n})", "max({n})",
        "TRY_CAST(avg({d}{n}) AS DECIMAL(18,3))", "count_if({b})", "median({n})", "count({any}) * 2 + 1", "sum({b}::INTEGER)",
        "coalesce(sum({n}), 0)", "quantile_disc({n}, 0.25)", "bit_xor(TRY_CAST({n} AS INTEGER))", "product({N})",
        "first({n1} ORDER BY {n1})", "last({n1} ORDER BY {n1} NULLS LAST)", "approx_count_distinct(1)", "sum({d}TRY_CAST({n} AS HUGEINT))",
        "min(length({t}))", "max({n}) - min({n})", "max({n}, 2)[1]", "arg_max({n1}, {n1})", "regr_count({n}, {n})",
    ),
    TEXT: (
        "min({t})", "max({t})", "string_agg({d}{t1}, ',' ORDER BY {t1})", "string_agg({t1}, ';' ORDER BY {t1} DESC NULLS LAST)",
        "upper(max({t}))", "any_value('a')", "arg_min({t1}, {t1})", "typeof(sum({n}))", "min({any} IS NULL)::VARCHAR",
    ),
    MOMENT: ("min({m})", "max({m})", "max({m} + INTERVAL 1 DAY)"),
    TRUTH: ("bool_and({b})", "bool_or({b})", "min({b})", "count(*) > 3", "max({n}) IS NULL", "max({t}) > min({t})"),
    "INTEGER[]": ("list(TRY_CAST({n1} AS INTEGER) ORDER BY TRY_CAST({n1} AS INTEGER))", "list_sort(list({d}TRY_CAST({n} AS INTEGER)))"),
    "VARCHAR[]": ("list({t1} ORDER BY {t1})", "array_agg({t1} ORDER BY {t1} DESC)", "list_sort(list(DISTINCT {t}))"),
}  # fmt: skip
ANY_AGGREGATES = ("min({same})", "max({same})", "max({same})")

INEXACT = ("avg({n})", "stddev_samp({n})", "var_pop({n})", "sum({n} / 3)", "avg({n} / 7)", "corr({n}, {n})", "skewness({n})",
           "list({any1} ORDER BY {any1})", "histogram({t})", "struct_pack(a := sum({n}), b := max({t}))", "[min({n}), max({n})]",
           "mad({n})", "quantile_cont({n}, [0.25, 0.5])", "favg({n})", "kahan_sum({n})", "geomean(abs({n}) + 1)", "count(DISTINCT {any})")  # fmt: skip
"""Aggregates for the outermost select list alone."""

OUTPUTS = ("{'a': {any}, 'b': {any}}", "[{same}, {same}]", "{n}::VARCHAR::VARCHAR", "NULL", "{n} / 3", "{n} / {n}", "1", "1.50",
           "'x'", "MAP {{any}: {any}}", "[{'a': {any}}]", "[[{n}], NULL, []]", "{n} ** 2", "{n}::DECIMAL(18,6)", "hash({any})", "TRY_CAST({t} AS JSON)",
           "sqrt(abs({n}))", "ln(abs({n}) + 1)", "{any}::VARCHAR", "DATE '2020-01-01' - {m}::DATE", "{m} - {m}", "to_days({n}::INTEGER)", "{b} IS UNKNOWN",
           "array_value({n}, {n})", "unnest({INTEGER[]})", "unnest({VARCHAR[]})",
           "unnest({INTEGER[][]}, recursive := true)", "generate_subscripts({INTEGER[]}, 1)", "list_zip({INTEGER[]}, {VARCHAR[]})::VARCHAR", f"struct_insert({{{PAIR}}}, c := {{any}})", "map_entries({MAP(INTEGER, VARCHAR[])})",
           "{n}::VARCHAR", "TRY_CAST({n} AS INTEGER)", "TRY_CAST({t} AS DOUBLE)", "{b}::BOOLEAN", "{n}::BOOLEAN", "{m}::VARCHAR", "list({n}) OVER ({part} ORDER BY {total} {frame})", "{any}::VARCHAR::JSON::VARCHAR",
           "struct_extract({'x': {any}}, 'x')", "union_value(k := {any})", "current_setting('TimeZone')", "9223372036854775808", "1e400::VARCHAR", "x'0f'::VARCHAR",
           "'0'::BLOB", "[]", "{any}", "{any}", "{any}")  # fmt: skip
"""Values for the outermost select list alone, of whatever type."""

WINDOWS: dict[str, tuple[str, ...]] = {
    NUMBER: (
        "sum({n}) OVER ({part})", "count(*) OVER ({part} ORDER BY {col} {dir})", "rank() OVER ({part} ORDER BY {col} {dir})",
        "dense_rank() OVER ({part} ORDER BY {col})", "min({n}) OVER ({part} ORDER BY {col} RANGE UNBOUNDED PRECEDING)",
        "row_number() OVER ({part} ORDER BY {total})", "sum({n}) OVER ({part} ORDER BY {total} ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
        "lag({n}, 1) OVER ({part} ORDER BY {total})", "lead({n}, 2, 0) OVER ({part} ORDER BY {total})", "ntile(3) OVER ({part} ORDER BY {total})",
        "first_value({n}) OVER ({part} ORDER BY {total})", "nth_value({n}, 2) OVER ({part} ORDER BY {total})",
        "sum({n}) OVER ({part} ORDER BY {total} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
        "count({d}{any}) OVER ({part})", "count({any}) FILTER (WHERE {b}) OVER ({part})", "max({n}) OVER ({part} ORDER BY {col} GROUPS 1 PRECEDING)",
        "last_value({n} IGNORE NULLS) OVER ({part} ORDER BY {total})", "count(*) OVER ({part} ORDER BY {num} RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
        "median({n}) OVER ({part})", "sum({n}) OVER ({part} ORDER BY {total} {frame})", "count({any}) OVER ({part} ORDER BY {total} {frame})",
        "min({n}) OVER ({part} ORDER BY {total} {frame})", "last_value({n}) OVER ({part} ORDER BY {total} {frame})",
        "percent_rank() OVER ({part} ORDER BY {col} {dir})", "cume_dist() OVER ({part} ORDER BY {col} {dir})",
        "count({any}) OVER ({part} ORDER BY {num} {dir} {range})", "max({n}) OVER ({part} ORDER BY {num} {range})", "count(*) OVER ({part} ORDER BY {when} {dir} {span})",
        "min({n}) FILTER (WHERE {b}) OVER ({part} ORDER BY {total} {frame})", "count(DISTINCT {any}) OVER ({part} ORDER BY {total} {frame})",
        "lag({n} IGNORE NULLS) OVER ({part} ORDER BY {total})", "lag({n}, {N}::INTEGER, {n}) OVER ({part} ORDER BY {total})", "nth_value({n}, 2 IGNORE NULLS) OVER ({part} ORDER BY {total} {frame})",
        "rank(ORDER BY {col}) OVER ({part} ORDER BY {total} {frame})", "quantile_disc({n}, 0.5) OVER ({part} ORDER BY {total} {frame})", "sum({n} ORDER BY {total}) OVER ({part})",
        "arg_max({n1}, {n1}) OVER ({part} ORDER BY {total} {frame})", "first_value({n} ORDER BY {total}) OVER ({part})",
    ),
    TEXT: ("max({t}) OVER ({part})", "lag({t}) OVER ({part} ORDER BY {total})", "first_value({t}) OVER ({part} ORDER BY {total})",
           "string_agg({t}, ',') OVER ({part} ORDER BY {total})", "max({t}) OVER ({part} ORDER BY {total} {frame})",
           "nth_value({t}, 2) OVER ({part} ORDER BY {total} {frame})"),
    MOMENT: ("max({m}) OVER ({part})", "lead({m}) OVER ({part} ORDER BY {total})"),
    TRUTH: ("bool_or({b}) OVER ({part})", "row_number() OVER ({part} ORDER BY {total}) = 1", "rank() OVER (ORDER BY {col}) <= {N}"),
}  # fmt: skip
