"""A graph of crawls and steps: crawls the bookshop in parts, parses what each task collected, merges, checks and loads.

    crawlctl flow run examples/flows/bookshop_graph.py

At the end, the books are in `bookshop.json` in the current folder. The variable BOOKSHOP_OUTPUT names another file.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from crawler_lifecycle.flows import Context, CrawlReceipt, TaskReceipt, Workflow, crawl, each_task

OUTPUT = Path(os.environ.get("BOOKSHOP_OUTPUT", "bookshop.json"))
LISTS_A_PART = 4
RULES = ["no book twice", "all prices", "all titles"]


def plan_parts(categories: CrawlReceipt) -> Workflow:
    """Return a crawl for every few list pages, and a step for each task of these crawls, which starts as the task ends.

    The returned jobs join the graph in the place of `parts`.
    """
    lists = [item["list"] for item in items_of(categories.files, 0)]
    parts = Workflow()
    for part, first in enumerate(range(0, len(lists), LISTS_A_PART)):
        chosen = ",".join(lists[first : first + LISTS_A_PART])
        parts.add(f"crawl_{part}", crawl("bookshop", arguments={"lists": chosen}, tasks=2), retries=1)
        parts.add_cascade(f"books_{part}", each_task(f"crawl_{part}", parse))
    return parts


def parse(task: TaskReceipt, context: Context) -> list[dict[str, Any]]:
    """Return the books that a task has collected."""
    books = items_of(task.files, task.task)
    return [{"title": book["title"], "cents": round(100 * book["price"])} for book in books]


def merge(context: Context) -> list[dict[str, Any]]:
    """Return all books, in the order of their titles."""
    tasks = [found for name, found in context["parts"].items() if name.startswith("books_")]
    books = [book for by_task in tasks for found in by_task.values() for book in found]
    return sorted(books, key=lambda book: str(book["title"]))


def check(rule: str, context: Context) -> list[str]:
    """Return the titles that break a rule."""
    titles = [book["title"] for book in context["merge"]]
    if rule == "no book twice":
        return [title for title, count in Counter(titles).items() if count > 1]
    if rule == "all prices":
        return [book["title"] for book in context["merge"] if book["cents"] <= 0]
    return [str(number) for number, title in enumerate(titles) if not title]


def load(context: Context) -> dict[str, Any]:
    """Write the books into the file, if no rule is broken."""
    broken = {rule: titles for rule, titles in zip(RULES, context["check"].values(), strict=True) if titles}
    if broken:
        raise ValueError(f"broken rules: {broken}")
    output = Path(context["output"])
    draft = output.with_suffix(".part")  # a step may run twice: a whole file replaces a whole file
    draft.write_text(json.dumps(context["merge"], indent=1))
    draft.replace(output)
    return {"file": str(output), "books": len(context["merge"])}


def items_of(files: str | None, task: int) -> list[dict[str, Any]]:
    """Return the items that a task has left in its run's folder; a task without items leaves no file."""
    if files is None:
        raise FileNotFoundError("this machine does not have the folder with the run's files")
    path = Path(files) / f"items-{task}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def workflow() -> Workflow:
    return (
        Workflow("bookshop")
        .add_context({"output": str(OUTPUT.absolute())})
        .add("categories", crawl("bookshop", arguments={"books": "no"}, tasks=1), retries=1)
        .add_graft("parts", plan_parts, deps="categories")
        .add_cascade("merge", merge, deps="parts")
        .add_cascade("check", (RULES, check), deps="merge")
        .add_cascade("load", load, deps=["merge", "check"])
    )
