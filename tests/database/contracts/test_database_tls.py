"""Connections to a real MariaDB server with and without TLS, by CRAWLER_DATABASE__TLS."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crawler_lifecycle.database.database import Database
from crawler_lifecycle.errors import NotReady
from crawler_lifecycle.settings import configuration
from tests.kit.data.databases import RELAXED, mariadb, mariadb_is_installed, missing
from tests.kubernetes.certificates import Certificates

NAMED, UNNAMED = "127.0.0.1", "127.1"  # the same address; the certificate has the first
PLAIN = ""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    files = Certificates(tmp_path_factory.mktemp("server"))
    files.make()
    return files


@pytest.fixture(scope="module")
def encrypting(certificates: Certificates) -> Iterator[int]:
    """The port of a server with a certificate."""
    if not mariadb_is_installed():
        missing("no mariadbd on this machine (Debian's package is mariadb-server)")
    key, certificate = f"--ssl-key={certificates.server_key}", f"--ssl-cert={certificates.server}"
    with mariadb(*RELAXED, key, certificate, f"--ssl-ca={certificates.authority}") as server:
        yield server.port


def cipher(port: int, tls: str, ca: Path | None = None, host: str = NAMED) -> str:
    """Connect, and return the connection's cipher."""
    said = {"url": f"mysql://root@{host}:{port}/", "tls": tls} | ({"tls_ca": ca} if ca else {})
    with closing(Database(configuration.load(database=said).database_url)) as database, database.read() as connection:
        row = connection.exec_driver_sql("SHOW STATUS LIKE 'Ssl_cipher'").one()
        return str(row[1])


@pytest.mark.long
def test_a_server_that_proves_its_name_is_used(encrypting: int, certificates: Certificates) -> None:
    assert cipher(encrypting, "verify", certificates.authority) != PLAIN
    assert cipher(encrypting, "require") != PLAIN
    assert cipher(encrypting, "off") == PLAIN


def test_a_server_with_another_name_or_authority_is_refused(
    encrypting: int, certificates: Certificates, tmp_path: Path
) -> None:
    others = Certificates(tmp_path)
    others.make()
    with pytest.raises(NotReady, match=r"does not prove its name .*CRAWLER_DATABASE__TLS"):
        cipher(encrypting, "verify", others.authority)
    with pytest.raises(NotReady, match="certificate verify failed"):
        cipher(encrypting, "verify")  # the system's authorities
    with pytest.raises(NotReady, match=r"does not prove its name .*127\.1"):
        cipher(encrypting, "verify", certificates.authority, host=UNNAMED)


@pytest.mark.parametrize("tls", ["verify", "require"])
@pytest.mark.long
def test_a_server_without_tls_gets_no_password(mariadb_server: int, certificates: Certificates, tls: str) -> None:
    with pytest.raises(NotReady, match=r"does not encrypt .*see CRAWLER_DATABASE__TLS"):
        cipher(mariadb_server, tls, certificates.authority if tls == "verify" else None)


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"tls": "verify"}, "CRAWLER_DATABASE__TLS: expected only with a URL of MySQL or MariaDB"),
        (
            {"url": "mysql://a@h/d?ssl_ca=/x", "tls": "require"},
            "CRAWLER_DATABASE__TLS: expected only with a URL without parameters for TLS",
        ),
        (
            {"url": "mysql://a@h/d", "tls": "require", "tls_ca": "/x"},
            "CRAWLER_DATABASE__TLS_CA: expected only with CRAWLER_DATABASE__TLS=verify",
        ),
        (
            {"url": "mysql://a@h/d", "tls": "maybe"},
            "CRAWLER_DATABASE__TLS: expected 'prefer', 'verify', 'require' or 'off'",
        ),
    ],
)
def test_contradictions_are_one_line(said: dict[str, str], line: str) -> None:
    with pytest.raises(NotReady) as refusal:
        configuration.load(database=said)
    assert refusal.value.message == line


@pytest.mark.parametrize(
    ("said", "is_warned"),
    [
        ({"url": "mysql://a:secret@db.example/d"}, True),
        ({"url": "mysql://a@db.example/d", "tls": "require"}, True),
        ({"url": "mysql://a@db.example/d", "tls": "verify"}, False),
        ({"url": "mysql://a@db.example/d?ssl_ca=/x&ssl_check_hostname=true"}, False),
        ({"url": "mysql://a@127.0.0.1/d"}, False),
        ({"url": "sqlite:////tmp/x.db"}, False),
        ({}, False),
    ],
)
def test_a_server_elsewhere_without_proof_is_warned_about(said: dict[str, str], is_warned: bool) -> None:
    warning = configuration.load(database=said).database.warning
    assert bool(warning) is is_warned
    assert "secret" not in (warning or "")
