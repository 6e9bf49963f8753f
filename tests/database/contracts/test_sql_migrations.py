"""The upgrade makes the schema that the program was written for, once, and every other schema gets a clear line."""

import itertools
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, event, inspect, text, update

from crawler_lifecycle.assembly.store import SqlStore
from crawler_lifecycle.database import migrate
from crawler_lifecycle.database.database import Database
from crawler_lifecycle.database.migrate import VERSIONS, check, revision, upgrade
from crawler_lifecycle.database.schema import REVISION, metadata
from crawler_lifecycle.errors import LifecycleError, NotReady
from tests.kit.data.databases import kill


def test_the_migrated_schema_is_the_one_in_the_code(database: Database) -> None:
    with database.read() as connection:
        options = {"compare_type": True, "compare_server_default": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []


def test_it_is_the_same_to_the_letter(bare_url: str) -> None:
    """Also what the comparison above does not look at: collations, checks, order."""
    upgrade(bare_url)
    database = Database(bare_url)
    with database.transaction() as connection:
        migrated = _definitions(connection)
        metadata.drop_all(connection)
        metadata.create_all(connection)
        assert _definitions(connection) == migrated
    database.close()


def test_every_constraint_has_a_name(database: Database) -> None:
    with database.read() as connection:
        look = inspect(connection)
        for table in set(look.get_table_names()) - {VERSIONS.name}:
            assert all(str(key["name"]).startswith("uq_") for key in look.get_unique_constraints(table))
            assert all(str(key["name"]).startswith("fk_") for key in look.get_foreign_keys(table))
            assert all(str(key["name"]).startswith("ck_") for key in look.get_check_constraints(table))


def test_the_program_knows_its_newest_migration() -> None:
    assert _scripts().get_heads() == [REVISION]


def test_a_second_revision_demands_a_copy_of_the_first_schema() -> None:
    """The first revision follows `schema.py`: a later revision changes the tables only after a copy of them is made."""
    first, *later = reversed([*_scripts().walk_revisions()])
    assert not later or "import metadata" not in Path(first.path).read_text()


def test_a_later_schema_only_adds(bare_url: str) -> None:
    """A program of the version before goes on while the schema is upgraded, and after it."""
    upgrade(bare_url)  # makes the file or the database ready
    database = Database(bare_url)
    shapes: list[Shape] = []
    with database.transaction() as connection:
        everything = MetaData()
        everything.reflect(connection)
        everything.drop_all(connection)
        for each in reversed([*_scripts().walk_revisions()]):
            _upgrade_to(connection, each.revision)
            shapes.append(_shape(connection))
    database.close()
    for earlier, later in itertools.pairwise(shapes):
        assert _breaking_changes(earlier, later) == []


def test_a_breaking_change_of_the_schema_is_recognised() -> None:
    """The comparison above has nothing to compare until there is a second revision."""
    columns = {"id": ("INTEGER", False)}
    before: Shape = {"runs": (columns, set())}
    assert _breaking_changes(before, {"runs": (columns | {"note": ("TEXT", True)}, set()), "more": ({}, set())}) == []
    assert _breaking_changes(before, {}) == ["runs: is gone"]
    assert _breaking_changes(before, {"runs": ({}, set())}) == ["runs.id: is gone or has another type"]
    assert _breaking_changes(before, {"runs": ({"id": ("TEXT", False)}, set())}) == [
        "runs.id: is gone or has another type"
    ]
    needed = columns | {"note": ("TEXT", False)}
    assert _breaking_changes(before, {"runs": (needed, set())}) == ["runs.note: an earlier program leaves it out"]
    assert _breaking_changes(before, {"runs": (columns, {"id < 9"})}) == ["runs: its rules are others"]


# columns with their types and whether a row may leave them out; everything that could refuse a row
Shape = dict[str, tuple[dict[str, tuple[str, bool]], set[str]]]


def _breaking_changes(earlier: Shape, later: Shape) -> list[str]:
    problems: list[str] = []
    for table, (columns, rules) in earlier.items():
        if table not in later:
            problems.append(f"{table}: is gone")
            continue
        columns_then, rules_then = later[table]
        problems += [
            f"{table}.{name}: is gone or has another type"
            for name, kind in columns.items()
            if columns_then.get(name) != kind
        ]
        problems += [
            f"{table}.{name}: an earlier program leaves it out"
            for name in columns_then.keys() - columns.keys()
            if not columns_then[name][1]
        ]
        if rules_then != rules:
            problems.append(f"{table}: its rules are others")
    return problems


def _shape(connection: Connection) -> Shape:
    look = inspect(connection)
    found: Shape = {}
    for table in set(look.get_table_names()) - {VERSIONS.name}:
        columns = {
            str(each["name"]): (str(each["type"]), bool(each["nullable"] or each["default"] is not None))
            for each in look.get_columns(table)
        }
        rules: list[Any] = [
            look.get_unique_constraints(table),
            look.get_foreign_keys(table),
            look.get_check_constraints(table),
        ]
        found[table] = (columns, {str(rule) for several in rules for rule in several})
    return found


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())


def _upgrade_to(connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrate.SCRIPTS))
    return config


def test_the_installation_is_made_once(bare_url: str) -> None:
    first = upgrade(bare_url)
    assert str(UUID(first)) == first
    assert upgrade(bare_url) == first
    database = Database(bare_url)
    assert SqlStore(database).records.installation() == first
    database.close()


def test_upgrades_at_the_same_time_agree(bare_url: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(upgrade, [bare_url] * 4))) == 1


def test_an_upgrade_that_died_after_any_of_its_steps_is_made_again(bare_url: str) -> None:
    """MySQL commits each step: every next try finds one more of them done. On SQLite it finds nothing."""
    died_after = list[str]()

    def die(connection: Connection, cursor: Any, statement: str, *_: Any) -> None:
        step = " ".join(statement.split())
        if step.startswith(("CREATE", "ALTER", "INSERT", "UPDATE")) and step not in died_after:
            died_after.append(step)
            if connection.dialect.name == "sqlite":
                raise sqlite3.OperationalError("disk I/O error")
            kill(connection.engine.url.port or 0, cursor.connection.thread_id())

    event.listen(Engine, "after_cursor_execute", die)
    try:
        for tries in itertools.count():
            try:
                uid = upgrade(bare_url)
                break
            except LifecycleError:
                assert len(died_after) == tries + 1, "each try dies after a step of its own"
    finally:
        event.remove(Engine, "after_cursor_execute", die)
    indexes = [index for table in metadata.sorted_tables for index in table.indexes]
    assert len(died_after) >= len(metadata.tables) + len(indexes) + 3, "the versions' table, its row, and ours"
    assert "INTO alembic_version" in died_after[-2]
    database = Database(bare_url)
    check(database)
    assert SqlStore(database).records.installation() == uid
    with database.transaction() as connection:
        migrated = _definitions(connection)
        metadata.drop_all(connection)
        metadata.create_all(connection)
        assert _definitions(connection) == migrated
    database.close()


def test_no_schema(bare_url: str) -> None:
    database = Database(bare_url)
    with pytest.raises(NotReady, match="run `crawlctl db upgrade`"):
        check(database)
    assert not Path(bare_url.removeprefix("sqlite:///")).exists()
    database.close()


@pytest.mark.parametrize(
    ("found", "message"),
    [("0000", "is at 0000, this program needs .*crawlctl db upgrade"), ("0999", "newer"), ("a1b2c3", "does not know")],
)
def test_another_schema(bare_url: str, found: str, message: str) -> None:
    upgrade(bare_url)
    database = Database(bare_url)
    check(database)
    with database.transaction() as connection:
        connection.execute(update(VERSIONS).values(version_num=found))
    with pytest.raises(NotReady, match=message) as refused:
        check(database)
    assert "\n" not in refused.value.message
    with pytest.raises(NotReady, match=message):
        SqlStore(database).records.installation()
    database.close()


def test_a_later_schema_of_the_same_generation_serves_an_earlier_program(bare_url: str) -> None:
    installation = upgrade(bare_url)
    database = Database(bare_url)
    with database.transaction() as connection:
        connection.execute(update(VERSIONS).values(version_num=f"{REVISION[:2]}99"))
    check(database)
    assert upgrade(bare_url) == SqlStore(database).records.installation() == installation
    with database.read() as connection:
        assert revision(connection) == f"{REVISION[:2]}99", "and nothing is taken back"
    database.close()


LATER_REVISION = f"{int(REVISION) + 1:04}"
LATER_MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision = "{LATER_REVISION}"
down_revision = "{REVISION}"


def upgrade() -> None:
    if not sa.inspect(op.get_bind()).has_table("later"):
        op.create_table("later", sa.Column("id", sa.Integer, nullable=False))
"""


def test_a_later_migration_follows_the_schema_that_is_there(
    bare_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = upgrade(bare_url)
    database = Database(bare_url)
    scripts = tmp_path / "migrations"
    shutil.copytree(migrate.SCRIPTS, scripts)
    (scripts / "versions" / f"{LATER_REVISION}_later.py").write_text(LATER_MIGRATION)
    with monkeypatch.context() as later_program:
        later_program.setattr(migrate, "SCRIPTS", scripts)
        later_program.setattr(migrate, "REVISION", LATER_REVISION)
        with pytest.raises(NotReady, match=f"is at {REVISION}, this program needs {LATER_REVISION}"):
            check(database)
        assert upgrade(bare_url) == uid
        check(database)
    check(database)  # the earlier program goes on
    with database.read() as connection:
        assert inspect(connection).has_table("later")
    database.close()


def test_an_upgrade_leaves_a_newer_schema_alone(bare_url: str) -> None:
    upgrade(bare_url)
    database = Database(bare_url)
    with database.transaction() as connection:
        connection.execute(update(VERSIONS).values(version_num="0999"))
    with pytest.raises(NotReady, match="newer"):
        upgrade(bare_url)
    database.close()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "database.url"),
        ("postgresql://localhost/x", "expected sqlite://, mysql:// or mariadb://"),
        ("sqlite://", "expected a file"),
        ("sqlite:////dev/null/crawler.db", "cannot be made"),
    ],
)
def test_an_address_that_cannot_be_used(url: str, message: str) -> None:
    with pytest.raises(NotReady, match=message):
        upgrade(url)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "crawler.db"
    path.write_text("shopping list\n" * 100)
    with pytest.raises(NotReady, match="cannot be used"):
        upgrade(f"sqlite:///{path}")


def _definitions(connection: Connection) -> dict[str, list[str]]:
    if connection.dialect.name == "sqlite":
        rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")).all()
        return {name: [" ".join(sql.split())] for name, sql in rows if name not in (VERSIONS.name, "sqlite_sequence")}
    shown = [connection.execute(text(f"SHOW CREATE TABLE {name}")).one() for name in metadata.tables]
    return {name: sorted(line.rstrip(",") for line in sql.splitlines()) for name, sql in shown}
