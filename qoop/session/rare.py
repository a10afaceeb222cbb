"""Statements that few sessions run: databases, extensions, macros, prepared ones. Loaded at the first of them."""

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

Rare = OfDatabases | OfExtensions | OfMoves | OfMacros | prepared.OfSessionState


def execute(run: Execution, statement: Rare) -> Result:
    """As `Execution.execute`."""
    if isinstance(statement, OfMoves):
        return _move(run, statement)
    if isinstance(statement, OfExtensions):
        return _extend(run, statement)
    if isinstance(statement, OfDatabases):
        with run.tables.naming():
            found = run.tables.attached.do(statement, run.tables.locked)
        return done() if found is None else Result(*found)
    if isinstance(statement, OfMacros):
        run.tables.definitions.define_macro(statement)
        return done()
    return _remember(run, statement)


def _move(run: Execution, statement: OfMoves) -> Result:
    """Export all tables and views, or import those of a folder."""
    from qoop.query.statements.import_export import exporting, importing

    if run.tables.locked:
        raise Forbidden("a locked session exports and imports no databases")
    definitions = run.tables.definitions
    if isinstance(statement, Export):

        def rows(name: str) -> Result:
            return run.query(f"FROM {quoted(name)}")

        return counted(exporting.export(statement, definitions.contents(), run.tables.attached.tables(), rows))
    run.texts.changed()
    return Result(*importing.import_database(statement, definitions, run.execute, Result, run.session.config.memory))


def _extend(run: Execution, statement: OfExtensions) -> Result:
    """Load an extension of DuckDB for the queries to come, or have it downloaded."""
    if isinstance(statement, Install):
        if run.tables.locked:
            raise Forbidden("a locked session loads no extensions")
        extensions.install(statement.name, statement.source)
    else:
        run.tables.load_extension(statement.name)
    return done()


def _remember(run: Execution, statement: prepared.OfSessionState) -> Result:
    """Prepared statements, variables and transactions."""
    if run.tables.locked:  # its users are many
        raise Forbidden("a locked session has no prepared statements, variables and transactions")
    state, result = run.texts.state, done()
    match statement:
        case prepared.Prepare():
            state.prepare(statement)
        case prepared.Execute():
            for inner in state.execute(statement):
                result = run.execute(inner)
        case prepared.Deallocate():
            state.deallocate(statement)
        case prepared.SetVariable(name, None):
            state.forget_variable(name)
        case prepared.SetVariable(name, text):
            found = run.execute(Query(f"SELECT ({text})"))
            state.set_variable(name, found.fetchall()[0][0], found.types[0])
        case prepared.Transaction():
            state.transact(statement)
    return result
