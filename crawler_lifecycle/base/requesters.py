"""Requesters, as rows, timelines and notices show them.

A name in a request proves nothing. The API therefore puts the token's name beside the claimed name, as in
`ceo@example.com (token shop)`. Without a claimed name, the requester is `token shop`.
"""

from dataclasses import dataclass

from crawler_lifecycle.errors import BadInput

LONGEST_CLAIM = 256  # characters, for a claimed name
LONGEST_REQUESTER = 400  # characters: a claimed name and a token's name (128)
BY_TOKEN = "(token "


@dataclass(frozen=True, slots=True)
class Requester:
    """A person or program that sends commands through a door: Python, `crawlctl`, the HTTP API, or Temporal."""

    claimed: str | None = None
    token: str | None = None  # name of the API's token, checked by the door
    door: str = "python"

    def __post_init__(self) -> None:
        _refuse_long(self.claimed or "", "actor")

    @property
    def name(self) -> str | None:
        """The text for records; None: the door knows no name."""
        if self.token is None:
            return self.claimed
        return f"{self.claimed} {BY_TOKEN}{self.token})" if self.claimed else f"token {self.token}"

    @property
    def record(self) -> dict[str, str | None]:
        """The fields `actor` and `door` for requests and lines."""
        return {"actor": self.name, "door": self.door}


def _refuse_long(name: str, field: str) -> None:
    if len(name) > LONGEST_CLAIM:
        raise BadInput(field, f"expected at most {LONGEST_CLAIM} characters")


NOBODY = Requester()


def of_token(token: str, claimed: str | None, door: str, field: str = "actor") -> Requester:
    """Return the requester with a token. BadInput for a long claimed name, or a name like another token's."""
    # a client may read a schedule and send the schedule again, with the recorded name
    name = (claimed or "").removesuffix(f" {BY_TOKEN}{token})")
    if name == Requester(token=token).name:
        name = ""
    if BY_TOKEN in name.lower() or name.lower().startswith("token "):
        raise BadInput(field, f"must not look like the name of a token: leave out `{BY_TOKEN}NAME)`")
    _refuse_long(name, field)
    return Requester(name or None, token, door)
