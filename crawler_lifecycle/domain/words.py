"""Numbers with their nouns, for messages: `1 task`, `2 tasks`."""


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
