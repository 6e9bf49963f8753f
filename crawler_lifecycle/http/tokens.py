"""The API's tokens, kept in a file with names, scopes and hashes. The texts of tokens are not stored.

Tokens are long and random, so that a plain hash is enough. The file is read again after every change: a revoked token
is refused from the next request on, and open streams of the token end.
"""

import fcntl
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from crawler_lifecycle.base.base import Message
from crawler_lifecycle.base.refusals import expectation
from crawler_lifecycle.errors import BadInput, Conflict, NotFound, NotReady
from crawler_lifecycle.model.requests import Name
from crawler_lifecycle.settings.stack_file import API_TOKEN_FILE, make_token, write_private

OPERATOR_NAME = "operator"  # the settings' token
EMBEDDED_NAME = "embedded"  # the embedded stack's token, for the page and for `crawlctl`
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
PREFIX = "crawl_"  # lets scanners for leaked secrets recognise a token


class Scope(StrEnum):
    READ = "read"
    OPERATE = "operate"
    RESULTS = "results"  # results of flows' members: data of the flows' authors


class Token(Message):
    name: Name
    hash: Hash  # of the text
    scopes: list[Scope]
    created_at: datetime


class TokenFile(Message):
    tokens: list[Token] = []


class Tokens:
    """The tokens in the file, and a token with all scopes by the settings. `operator`: the text for the latter."""

    def __init__(self, path: Path, operator: str = "") -> None:
        self.path = path
        self._operator = (
            [Token(name=OPERATOR_NAME, hash=_hash(operator), scopes=list(Scope), created_at=datetime.now(UTC))]
            if operator
            else []
        )
        self._file_state: tuple[int, int, int] | None = None  # time, size and inode when the file was read
        self._known: Sequence[Token] = ()

    def find(self, text: str) -> Token | None:
        """Return the token with this text, or None. Comparisons take a constant time, against guessing."""
        digest, match = _hash(text), None
        for known in (*self._operator, *self.all()):
            if hmac.compare_digest(known.hash, digest):
                match = known
        return match

    def is_valid(self, token: Token, scope: Scope) -> bool:
        """Return whether the file still has the token with the scope. A newer token of the same name does not count."""
        return any(known.hash == token.hash and scope in known.scopes for known in (*self._operator, *self.all()))

    def all(self) -> Sequence[Token]:
        """Return all tokens; none without a file. NotReady: the file is unreadable, and no caller is admitted."""
        try:
            status = self.path.stat()
            file_state = (status.st_mtime_ns, status.st_size, status.st_ino)
            if file_state != self._file_state:
                self._known = TokenFile.model_validate_json(self.path.read_bytes()).tokens
                self._file_state = file_state
        except FileNotFoundError:
            self._known, self._file_state = (), None
        except OSError as error:
            raise NotReady(f"the tokens in {self.path} cannot be read ({type(error).__name__}): mend it") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the file"
            raise NotReady(
                f"the tokens in {self.path} cannot be read ({where}: {expectation(first)}): mend it"
            ) from error
        return self._known

    def make(self, name: str, scopes: Sequence[Scope]) -> str:
        """Make a token and return its text, which cannot be shown again."""
        text = PREFIX + secrets.token_urlsafe(32)
        self.add(name, scopes, text)
        return text

    def add(self, name: str, scopes: Sequence[Scope], text: str) -> None:
        """Add a token with a given text. BadInput: the name is not acceptable. Conflict: the name is taken."""
        try:
            new = Token(name=name, hash=_hash(text), scopes=sorted(set(scopes)), created_at=datetime.now(UTC))
        except ValidationError as error:
            raise BadInput("name", expectation(error.errors()[0])) from error
        with self._locked():
            if name == OPERATOR_NAME or any(known.name == name for known in self.all()):
                raise Conflict(f"there is a token named {name} already: revoke that, or choose another name")
            self._write([*self.all(), new])

    def revoke(self, name: str) -> None:
        with self._locked():
            tokens = self.all()
            remaining = [known for known in tokens if known.name != name]
            if len(remaining) == len(tokens):
                raise NotFound(f"there is no token named {name}")
            self._write(remaining)

    def _write(self, tokens: Sequence[Token]) -> None:
        write_private(self.path, TokenFile(tokens=list(tokens)).model_dump_json(indent=2))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the file against other processes, so that two changes at a time do not lose a token."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            lock = os.open(self.path.with_name(self.path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise NotReady(f"{self.path} cannot be written: {error.strerror}") from error
        with os.fdopen(lock) as lock_file:  # the block's end frees the lock
            fcntl.flock(lock_file, fcntl.LOCK_EX)
            yield


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def embedded_token(state: Path, tokens: Tokens) -> str:
    """Return the text of the embedded stack's token. A private file in the state folder keeps the text.

    A token with the same name and another text, from a lost file, is replaced.
    """
    text = make_token(state, API_TOKEN_FILE)
    if tokens.find(text) is None:
        if any(known.name == EMBEDDED_NAME for known in tokens.all()):
            tokens.revoke(EMBEDDED_NAME)
        tokens.add(EMBEDDED_NAME, tuple(Scope), text)
    return text
