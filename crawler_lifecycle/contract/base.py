"""How do the models of the contract behave?"""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Frozen. Between our own parts unknown fields are ignored, so that versions can live side by side."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Request(BaseModel):
    """Frozen and strict: at a door a wrong type or an unknown field is an error that names the field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
