"""Statements that few sessions run: databases, extensions, macros, prepared ones. Loaded when one is met."""

from __future__ import annotations

from qoop.catalog import extensions
from qoop.catalog.errors import Forbidden
from qoop.catalog.lexer import quoted
from qoop.query.result import Result
from qoop.query.statements import prepared
from qoop.query.statements.databases.attaching import OfDatabases
from qoop.query.statements.databases.extending import Install, OfExtensions
from qoop.query.statements.databases.moves import Export, OfMoves
from qoop.query.statements.macros.reading import OfMacros
from qoop.query.statements.statement import Query
from qoop.session.execution import Execution, counted, done

Rare = OfDatabases | OfExtensions | OfMoves | OfMacros | prepared.Said


def execute(run: Execution, asked: Rare) -> Result:
    """As `Execution.execute`."""
    if isinstance(asked, OfMoves):
        return _move(run, asked)
    if isinstance(asked, OfExtensions):
        return _extend(run, asked)
    if isinstance(asked, OfDatabases):
        with run.tables.naming():
            found = run.tables.attached.do(asked, run.tables.locked)
        return done() if found is None else Result(*found)
    if isinstance(asked, OfMacros):
        run.tables.definitions.define_macro(asked)
        return done()
    return _remember(run, asked)


def _move(run: Execution, asked: OfMoves) -> Result:
    """Export all tables and views, or import those of a folder."""
    from qoop.query.statements.import_export import exporting, importing

    if run.tables.locked:
        raise Forbidden("a locked session exports and imports no databases")
    definitions = run.tables.definitions
    if isinstance(asked, Export):

        def rows(name: str) -> Result:
            return run.query(f"FROM {quoted(name)}")

        return counted(exporting.export(asked, definitions.named(), run.tables.attached.tables(), rows))
    run.texts.changed()
    return Result(*importing.import_database(asked, definitions, run.execute, Result, run.session.config.memory))


def _extend(run: Execution, asked: OfExtensions) -> Result:
    """Load an extension of DuckDB for the queries to come, or have it downloaded."""
    if isinstance(asked, Install):
        if run.tables.locked:
            raise Forbidden("a locked session loads no extensions")
        extensions.install(asked.name, asked.source)
    else:
        run.tables.load_extension(asked.name)
    return done()


def _remember(run: Execution, asked: prepared.Said) -> Result:
    """Prepared statements, variables and transactions."""
    if run.tables.locked:  # its users are many
        raise Forbidden("a locked session has no prepared statements, variables and transactions")
    remembered, result = run.texts.remembered, done()
    match asked:
        case prepared.Prepare():
            remembered.prepare(asked)
        case prepared.Execute():
            for statement in remembered.execute(asked):
                result = run.execute(statement)
        case prepared.Deallocate():
            remembered.deallocate(asked)
        case prepared.SetVariable(name, None):
            remembered.forget_variable(name)
        case prepared.SetVariable(name, text):
            found = run.execute(Query(f"SELECT ({text})"))
            remembered.set_variable(name, found.fetchall()[0][0], found.types[0])
        case prepared.Transaction():
            remembered.transact(asked)
    return result
