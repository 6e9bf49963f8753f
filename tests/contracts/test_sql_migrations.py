"""Does an upgrade make the schema the program was written for, once, and does every other schema get a clear line?"""

import itertools
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, MetaData, event, inspect, text, update

import crawler_lifecycle.adapters.sql as package
from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.adapters.sql.findings import SqlFindings
from crawler_lifecycle.adapters.sql.migrate import VERSIONS, check, revision, upgrade
from crawler_lifecycle.adapters.sql.records import SqlRecords
from crawler_lifecycle.adapters.sql.schema import REVISION, metadata
from crawler_lifecycle.contract.audits import AuditRef
from crawler_lifecycle.errors import LifecycleError, NotReady
from tests.databases import kill


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
        for table, (columns, rules) in earlier.items():
            columns_then, rules_then = later[table]
            assert rules_then == rules, "a rule of which it does not know could refuse what it writes"
            assert columns.items() <= columns_then.items()
            assert all(columns_then[name][1] for name in columns_then.keys() - columns.keys()), "it leaves them out"


# columns with their types and whether a row may leave them out; everything that could refuse a row
Shape = dict[str, tuple[dict[str, tuple[str, bool]], set[str]]]


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
    config.set_main_option("script_location", str(Path(package.__file__).parent / "migrations"))
    return config


def test_the_installation_is_made_once(bare_url: str) -> None:
    first = upgrade(bare_url)
    assert str(UUID(first)) == first
    assert upgrade(bare_url) == first
    database = Database(bare_url)
    assert SqlRecords(database).installation() == first
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
    assert "INTO alembic_version" in died_after[-2] or "UPDATE alembic_version" in died_after[-2]
    database = Database(bare_url)
    check(database)
    assert SqlRecords(database).installation() == uid
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
        SqlRecords(database).installation()
    database.close()


def test_a_later_schema_of_the_same_generation_serves_an_earlier_program(bare_url: str) -> None:
    installation = upgrade(bare_url)
    database = Database(bare_url)
    with database.transaction() as connection:
        connection.execute(update(VERSIONS).values(version_num=f"{REVISION[:2]}99"))
    check(database)
    assert upgrade(bare_url) == SqlRecords(database).installation() == installation
    with database.read() as connection:
        assert revision(connection) == f"{REVISION[:2]}99", "and nothing is taken back"
    database.close()


def test_whoever_has_gone_back_comes_forward_again(bare_url: str) -> None:
    """A program that knows no schema but its own is told that this is it: all that it needs is there."""
    upgrade(bare_url)
    database = Database(bare_url)
    findings, audit = SqlFindings(database), AuditRef(audit_uid=str(uuid4()), began_at=datetime.now(UTC), repair=True)
    findings.begin(audit)
    with database.transaction() as connection:
        connection.execute(update(VERSIONS).values(version_num="0001"))
    upgrade(bare_url)
    check(database)
    assert [each.audit_uid for each in findings.overview(audits=9, findings=9).audits] == [audit.audit_uid]
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
