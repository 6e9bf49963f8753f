"""Base classes for the contract's models."""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Frozen model. Unknown fields are ignored, so that processes with different versions can work together."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Request(BaseModel):
    """Frozen and strict model. A wrong type or an unknown field from outside is an error with the field's name."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
