"""Comparisons of texts, alike in all databases."""

from sqlalchemy import Column, ColumnElement, and_


def is_text(column: Column[str], text: str) -> ColumnElement[bool]:
    """Return the condition for rows with exactly this text.

    MySQL ignores blanks at a text's end in comparisons; before a dot, blanks count. The first condition uses the index.
    """
    return and_(column == text, column + "." == f"{text}.")
