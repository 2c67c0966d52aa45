"""The command ``anarchon schema``: what a role that may create things has to run."""

from __future__ import annotations

import click

from ._cli_source import BACKEND
from ._store_urls import is_postgres
from .errors import ConfigurationError


@click.command("schema", short_help="print what a store in PostgreSQL needs, as SQL")
@click.option(
    "--backend",
    required=True,
    metavar="URL",
    envvar=BACKEND,
    show_envvar=True,
    help="The store, as its backend gets it; nothing is connected.",
)
@click.option(
    "--schema",
    "name",
    default="public",
    show_default=True,
    metavar="NAME",
    help="The schema, as PostgresBackend(..., schema=NAME) gets it.",
)
def schema(backend: str, name: str) -> None:
    """Print the statements that create a store's schema, tables and functions.

    For databases where the service itself may not create anything: give the output to psql as
    a role that may, and then grant the service the rights that are listed at its end.
    """
    if not is_postgres(backend):
        raise click.BadParameter(
            "only a store in PostgreSQL has a schema; give postgresql://…",
            param_hint="'--backend'",
        )
    from .backends.postgres import ddl

    try:
        text = ddl(name)
    except ConfigurationError as error:
        raise click.BadParameter(str(error), param_hint="'--schema'") from None
    click.echo(text, nl=False)
