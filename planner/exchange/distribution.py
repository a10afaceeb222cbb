"""The distribution of a half-built fragment's rows over its tasks.

A :class:`Placed` is a subtree whose exchanges are placed, but whose own fragment is still growing.  Its rows are

- *single*: one task has all of them (and any task that repeats the subtree gets all of them too), or
- *spread*: each of n tasks has a share.  n is chosen when the fragment ends and all of its work is known;
  therefore `at` is a function of n.  Where `hashed` is not empty, the share is known: rows whose keys hash alike lie
  together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from qoop.catalog.value import value
from qoop.planner.algebra.expr import Call, Column, Expr, cast, columns_of, columns_of_all, is_volatile, substitute
from qoop.planner.algebra.relation import (
    Aggregate,
    Exchange,
    Filter,
    Join,
    Project,
    Relation,
    Scan,
    SetOp,
    Shared,
    Sort,
    Values,
    Window,
)
from qoop.planner.algebra.types import common_type

HashKeys = tuple[Expr, ...]

_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
            "DECIMAL", "DOUBLE")  # fmt: skip
_MOMENTS = ("DATE", "TIMESTAMP")


# Which side of a join may be spread over tasks that all have the other side: a preserved side that every task had
# would put its unmatched rows out in each of them.
LEFT_SPREADS = frozenset({"inner", "left", "semi", "anti", "mark"})
RIGHT_SPREADS = frozenset({"inner", "right"})


class Placed(NamedTuple):
    """A subtree in the fragment that is being built.

    meaning: the relation whose rows it puts out, before any exchange. partial: those rows are unfinished.
    at: the subtree for a given number of tasks.
    hashed: keys by which the shares are hashed, each alternative valid by itself; empty if the shares are arbitrary.
    splits: the most tasks that have any use; exact: the number of tasks it must have, 0 if free.
    rows: rows of all tasks together; per_task: at most this number in one task.
    seconds: one thread's work that the tasks divide; repeated: work that each task does again.
    divided: the scan of which each task has the rows of a range; None: the shares are others.
    reached: the part of the tasks whose shares have any rows, where these are a range of a sorted table.
    hash_bytes: bytes in hash tables that the tasks divide; hash_bytes_each: bytes that each task holds.
    """

    meaning: Relation
    at: Callable[[int], Relation]
    rows: float
    spread: bool = False
    partial: bool = False
    hashed: tuple[HashKeys, ...] = ()
    splits: int = 1
    exact: int = 0
    per_task: float = float("inf")
    divided: Scan | None = None
    reached: float = 1.0
    seconds: float = 0.0
    repeated: float = 0.0
    hash_bytes: float = 0.0
    hash_bytes_each: float = 0.0

    def under(
        self, meaning: Relation, wrap: Callable[[Relation], Relation], rows: float, seconds: float, **changes: object
    ) -> Placed:
        """The same fragment with one more operator on top."""
        at = self.at
        grown: dict[str, Any] = {"partial": False, "per_task": float("inf"), **changes}
        return self._replace(
            meaning=meaning, at=lambda n: wrap(at(n)), rows=rows, seconds=self.seconds + seconds, **grown
        )  # fmt: skip

    def rows_of(self, width: int) -> float:
        """Rows of all tasks together if there are `width` of them."""
        return min(self.rows, max(1.0, width * self.reached) * self.per_task)


def agree(placed: Sequence[Placed]) -> bool:
    """True if the spread subtrees can be tasks of one fragment."""
    return len({item.exact for item in placed if item.exact}) <= 1


def hash_type(left: str, right: str) -> str | None:
    """Return a type to which equal values of both types cast equal, so that they hash alike; None if unknown.

    DuckDB compares in this very type, and ``hash(1::INT) <> hash(1.00::DECIMAL)``.

    >>> hash_type("INTEGER", "DECIMAL(7,2)"), hash_type("DATE", "TIMESTAMP"), hash_type("DATE", "VARCHAR")
    ('DECIMAL(12,2)', 'TIMESTAMP', None)
    """
    if left == right:
        return left
    for family in (_NUMBERS, _MOMENTS):
        if all(type_.split("(")[0] in family for type_ in (left, right)):
            return common_type(sorted((left, right)))
    return None


@value
class EquiPair:
    """``left = right`` between the two sides of a join, both cast to one type."""

    left: Expr
    right: Expr


def equi_pairs(join: Join) -> tuple[EquiPair, ...]:
    """The conditions of a join by which both of its sides can be hashed."""
    pairs = (_equi_pair(condition, join) for condition in join.on)
    return tuple(pair for pair in pairs if pair is not None)


def _equi_pair(condition: Expr, join: Join) -> EquiPair | None:
    if not isinstance(condition, Call) or condition.op != "=" or len(condition.args) != 2 or is_volatile(condition):
        return None
    left, right = condition.args
    if not _is_of(left, join.left):
        left, right = right, left
    if not (_is_of(left, join.left) and _is_of(right, join.right)):
        return None
    type_ = hash_type(left.type, right.type)
    return None if type_ is None else EquiPair(cast(left, type_), cast(right, type_))


def _is_of(expr: Expr, relation: Relation) -> bool:
    columns = columns_of(expr)
    return bool(columns) and columns <= frozenset(relation.columns)


def aligned(left: Placed, right: Placed, pairs: Sequence[EquiPair]) -> bool:
    """True if both sides of a join are spread by keys that the join equates."""
    partners = {pair.left: pair.right for pair in pairs}
    known = (keys for keys in left.hashed if all(key in partners for key in keys))
    return agree((left, right)) and any(tuple(partners[key] for key in keys) in right.hashed for keys in known)


def partner_keys(hashed: tuple[HashKeys, ...], mine: Sequence[Expr], theirs: Sequence[Expr]) -> HashKeys | None:
    """If one side of a join is hashed by some of `mine`, the keys that hash the other side alike."""
    pairs = dict(zip(mine, theirs, strict=True))
    for keys in hashed:
        if all(key in pairs for key in keys):
            return tuple(pairs[key] for key in keys)
    return None


def kept_hashing(hashed: tuple[HashKeys, ...], project: Project) -> tuple[HashKeys, ...]:
    """The hash keys of a Project's input in terms of its output, as far as their columns are still there, or the keys
    themselves are columns now."""
    names: dict[Column, Expr] = {expr: column for column, expr in project.exprs if isinstance(expr, Column)}
    made: dict[Expr, Expr] = {
        either: column for column, expr in project.exprs if (either := _as_either(expr)) is not None
    }
    kept = (keys for keys in hashed if columns_of_all(key for key in keys if key not in made) <= names.keys())
    return tuple(tuple(made.get(key) or substitute(key, names) for key in keys) for keys in kept)


def _either(one: Expr, other: Expr) -> Call:
    """The one that is not NULL of two keys."""
    return Call("coalesce", (one, other), "coalesce({0}, {1})", one.type)


def _as_either(expr: Expr) -> Call | None:
    """The expression as `_either` writes it; None: it is something else.

    >>> x, y = Column("x", "INTEGER"), Column("y", "INTEGER")
    >>> is_null = Call("is_null", (x,), "({0} IS NULL)", "BOOLEAN")
    >>> str(_as_either(Call("case", (is_null, y, x), "(CASE WHEN {0} THEN {1} ELSE {2} END)", "INTEGER")))
    'coalesce(x, y)'
    """
    match expr:
        case Call("coalesce", (one, other)):
            return _either(one, other)
        case Call("case", (Call("not", (Call("is_null", (tested,)),)), one, other)) if tested == one:
            return _either(one, other)
        case Call("case", (Call("is_null", (tested,)), other, one)) if tested == one:
            return _either(one, other)
    return None


def hashed_within(hashed: tuple[HashKeys, ...], exprs: Sequence[Expr]) -> bool:
    """True if rows that agree on all of `exprs` lie in one task."""
    columns = frozenset(expr for expr in exprs if isinstance(expr, Column))
    return any(all(key in exprs or columns_of(key) <= columns for key in keys) for keys in hashed)


def is_repeatable(relation: Relation) -> bool:
    """True if every task that computes the fragment gets the very same rows (law 12)."""
    return all(_is_repeatable(node) for node in fragment_nodes(relation))


def _is_repeatable(node: Relation) -> bool:
    match node:
        case Filter():
            return not any(map(is_volatile, node.predicates))
        case Join():
            return not any(map(is_volatile, node.on))
        case Project():
            return not any(is_volatile(expr) for _, expr in node.exprs)
        case Values():
            return not any(is_volatile(expr) for row in node.rows for expr in row)
        case _:
            return isinstance(node, Scan | SetOp | Exchange)


def fragment_nodes(relation: Relation) -> Iterator[Relation]:
    """The operators of one fragment, parents first, down to and with the exchanges it reads."""
    yield relation
    if not isinstance(relation, Exchange):
        for child in relation.inputs:
            yield from fragment_nodes(child)


def common_partition(window: Window) -> tuple[Expr, ...]:
    """The expressions by which every call of the window partitions."""
    first, *rest = (call.partition_by for call in window.calls)
    common = (expr for expr in first if all(expr in other for other in rest))
    return tuple(expr for expr in dict.fromkeys(common) if columns_of_all((expr,)) and not is_volatile(expr))


def common_keys(aggregate: Aggregate) -> tuple[Column, ...]:
    """The keys by which every grouping groups."""
    sets = aggregate.grouping_sets if aggregate.grouping_sets is not None else (aggregate.keys,)
    return tuple(key for key in aggregate.keys if all(key in keys for keys in sets))


def readers_keys(relation: Relation) -> dict[int, tuple[Column, ...]]:
    """By id of an aggregate: those of its keys by which the operator that reads its rows needs them together.

    Rows hashed by fewer keys than the aggregate groups by lie right for it, and for its reader too; hashed by
    all of its keys they would have to be hashed again. (The interesting orders of System R, for partitionings.)
    """
    found: dict[int, tuple[Column, ...]] = {}
    visited: set[int] = set()

    def visit(node: Relation, wish: tuple[Column, ...]) -> None:
        if isinstance(node, Shared) and id(node) in visited:
            return
        visited.add(id(node))
        below = _wish_below(node, wish)
        if isinstance(node, Aggregate) and wish and below == wish:
            found[id(node)] = wish
        for child in node.inputs:
            visit(child, below)

    visit(relation, ())
    return found


def _wish_below(node: Relation, wish: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns by which an operator needs its input's rows together, for a wish of the operator above."""
    match node:
        case Window():
            keys = common_partition(node)
            columns = tuple(key for key in keys if isinstance(key, Column))
            return columns if len(columns) == len(keys) else ()
        case Aggregate():
            own = common_keys(node)
            return wish if wish and set(wish) <= set(own) else own
        case Project():
            kept = dict(node.exprs)
            exprs = [kept.get(column) for column in wish]
            columns = tuple(expr for expr in exprs if isinstance(expr, Column))
            return columns if len(columns) == len(exprs) else ()
        case Filter() | Sort():
            return wish
    return ()


def joined_hashing(join: Join, left: Placed, right: Placed) -> tuple[HashKeys, ...]:
    """The hash keys that still hold for the rows of a join. An outer join's padded NULLs lie anywhere; whichever key of
    a full join is no NULL says where its row lies."""
    kept: tuple[HashKeys, ...] = ()
    if join.kind == "full" and left.spread and right.spread:
        partners = {pair.left: pair.right for pair in equi_pairs(join)}
        for keys in left.hashed:
            theirs = tuple(partners.get(key, key) for key in keys)
            if theirs in right.hashed:
                kept += (tuple(map(_either, keys, theirs)), tuple(map(_either, theirs, keys)))
    if left.spread and join.kind in LEFT_SPREADS:
        kept += left.hashed
    if right.spread and join.kind in RIGHT_SPREADS:
        kept += right.hashed
    return kept


def positional_hashing(node: SetOp, branches: Sequence[Placed]) -> tuple[HashKeys, ...]:
    """Hash keys that all branches have in the same positions, in terms of the set operation's columns."""
    renamed = [_renamed(branch.hashed, branch.meaning.columns, node.columns) for branch in branches]
    return tuple(keys for keys in renamed[0] if all(keys in other for other in renamed[1:]))


def _renamed(hashed: tuple[HashKeys, ...], columns: Sequence[Column], names: Sequence[Column]) -> tuple[HashKeys, ...]:
    mapping: dict[Column, Expr] = dict(zip(columns, names, strict=True))
    return tuple(tuple(substitute(key, mapping) for key in keys) for keys in hashed)


def aligned_by_position(node: SetOp, branches: Sequence[Placed]) -> bool:
    """True if equal rows of all branches lie in the same task already."""
    spread = all(branch.spread for branch in branches)
    return spread and agree(branches) and bool(positional_hashing(node, branches))


def is_nested(column: Column) -> bool:
    """True for types whose hash is not worth relying on."""
    return column.type.endswith("]") or column.type.startswith(("STRUCT", "MAP", "UNION"))
