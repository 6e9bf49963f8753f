"""The function that the page's example imports from the author's own code."""


def list_folder(folder: str) -> list[str]:
    return [f"{folder}/{number}.csv" for number in range(6)]
