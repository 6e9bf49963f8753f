"""`python -m tests.ci.prose`: measure the prose of docstrings, comments, names and documents, and refuse a step back.

Packages and folders of documents have ceilings in prose.toml, which may only go down: `--lower` writes lower values.
"""

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from dataclasses import astuple, dataclass, field
from pathlib import Path

CEILINGS = Path(__file__).with_name("prose.toml")
PRODUCT = ("crawler_lifecycle", "workers")
GOAL = "6 vague words of 100, 3 % fragments, no question, fewer than 20 names"
VAGUE = re.compile(
    r"\b(what|who(ever|m|se)?|ones?|those|it|that|which|(no|some|any)(body|thing)|others?|each|of|this)\b",
    re.IGNORECASE,
)
FRAGMENT = re.compile(
    r"(of|by|what|those|who(ever|se|m)?|or|and|but|before|as long|not|none|how|where|which|it|that|they|these)\b",
    re.IGNORECASE,
)
TRANSLATED = re.compile(
    r"\b(on record|go(es|ing)? on|went on|for ever|by (itself|themselves)|so (many|long|much)|as (ever|usual)|former"
    r"|tells?|told|wish(es)?|is about|in (line|turn)|brings? \w+ on|nothing (of|else)|makes? to|sees? to"
    r"|stands? (for|still|behind|before)|perhaps|owed?s?|behind)\b",
    re.IGNORECASE,
)
NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)", re.DOTALL)  # code, and the targets of links
EMPTY_NAMES = {"told", "asked", "some", "each", "left", "found", "one", "this", "of", "here", "made", "described"}
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Measure:
    """Counts of one package. The ceilings are `vague` per 100 words, `translated` per 1,000 words, and plain counts.

    `translated` also counts phrases in texts for users: error messages, option help and field descriptions.
    """

    vague: float = 0.0
    fragments: int = 0
    questions: int = 0
    names: int = 0
    words: int = 0
    docstrings: int = 0
    translated: float = 0.0
    user_words: int = 0

    def add(self, source: str) -> None:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
                self._add_docstring(text, of_module=isinstance(node, ast.Module))
            self.names += _name(node) in EMPTY_NAMES
            for text in _texts_for_users(node):
                self.user_words += len(re.findall(r"[A-Za-z']+", text))
                self.translated += len(TRANSLATED.findall(text))
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                self._add_words(token.string)

    def _add_docstring(self, text: str, *, of_module: bool) -> None:
        self._add_words(text)
        self.questions += text.partition("\n\n")[0].rstrip().endswith("?")
        if not of_module:
            self.docstrings += 1
            self.fragments += bool(FRAGMENT.match(text))

    def _add_words(self, text: str) -> None:
        self.words += len(re.findall(r"[A-Za-z']+", text))
        self.vague += len(VAGUE.findall(text))
        self.translated += len(TRANSLATED.findall(text))

    def ceilings(self) -> dict[str, float]:
        share = round(100 * self.vague / max(1, self.words), 1)
        translated = round(1000 * self.translated / max(1, self.words + self.user_words), 1)
        counts = {"fragments": self.fragments, "questions": self.questions, "names": self.names}
        return {"vague": share, **counts, "translated": translated}


@dataclass
class DocumentMeasure:
    """Phrases of translated English in a folder of Markdown documents. The ceiling counts them per 1,000 words."""

    words: int = 0
    phrases: list[str] = field(default_factory=list)

    def add(self, name: str, markdown: str) -> None:
        text = NO_PROSE.sub(lambda code: "\n" * code[0].count("\n"), markdown)
        self.words += len(re.findall(r"[A-Za-z']+", text))
        for number, line in enumerate(text.splitlines(), start=1):
            self.phrases += [f"{name}:{number}: {phrase[0]}" for phrase in TRANSLATED.finditer(line)]

    def ceilings(self) -> dict[str, float]:
        return {"translated": round(1000 * len(self.phrases) / max(1, self.words), 1)}


def _texts_for_users(node: ast.AST) -> list[str]:
    """Return the literal text in a raised error, or in an argument `help` or `description`."""
    match node:
        case ast.Raise(exc=ast.Call(args=roots)):
            pass
        case ast.keyword(arg="help" | "description", value=value):
            roots = [value]
        case _:
            return []
    parts = [part.value for root in roots for part in ast.walk(root) if isinstance(part, ast.Constant)]
    return [part for part in parts if isinstance(part, str)]


def _name(node: ast.AST) -> str:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name.lower()
        case ast.Name(id=name, ctx=ast.Store()) | ast.alias(asname=str(name)):
            return name.lower()
    return ""


def measured(root: Path) -> dict[str, Measure]:
    """Return the measure of each package: of the product's the folders below it, the rest whole."""
    packages: dict[str, Measure] = {}
    for path in sorted(path for top in (*PRODUCT, "tests", "bench") for path in (root / top).rglob("*.py")):
        parts = path.relative_to(root).parent.parts
        name = "/".join(parts[:2] if parts[0] == PRODUCT[0] else parts[:1])
        packages.setdefault(name, Measure()).add(path.read_text())
    return packages


def documents(root: Path) -> dict[str, DocumentMeasure]:
    """Return the measure of each folder with documents, without the changelog."""
    folders: dict[str, DocumentMeasure] = {}
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        if path.name != "CHANGELOG.md":
            name = path.relative_to(root)
            folder = "README.md, CONTRIBUTING.md" if name.parent == Path() else name.parent.as_posix()
            folders.setdefault(folder, DocumentMeasure()).add(str(name), path.read_text())
    return folders


def too_high(now: dict[str, dict[str, float]], ceilings: dict[str, dict[str, float]]) -> list[str]:
    """Return a line for each value above its ceiling. A package without ceilings has to be at 0."""
    pairs = [
        (name, kind, value, ceilings.get(name, {}).get(kind, 0)) for name in now for kind, value in now[name].items()
    ]
    return [f"{name}: {kind} is {value:g}, may be {most:g}" for name, kind, value, most in pairs if value > most]


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure how plainly the packages are written.")
    parser.add_argument("--lower", action="store_true", help="write the ceilings anew where less is measured")
    packages = measured(Path())
    folders = documents(Path())
    now = {name: measure.ceilings() for name, measure in (packages | folders).items()}
    known = tomllib.loads(CEILINGS.read_text())
    if parser.parse_args().lower:
        CEILINGS.write_text("".join(_written(name, now[name], known.get(name, now[name])) for name in now))
        return 0
    whole = [astuple(measure) for name, measure in packages.items() if name.startswith(PRODUCT)]
    total = Measure(*map(sum, zip(*whole, strict=True)))
    share = f"{100 * total.fragments / total.docstrings:.0f} %"
    print(f"prose of the product: {total.ceilings()}, fragments are {share}; goal: {GOAL}")
    phrases, words = (
        sum(sizes) for sizes in zip(*((len(each.phrases), each.words) for each in folders.values()), strict=True)
    )
    print(f"translated phrases of the documents: {phrases} in {words:,} words")
    problems = too_high(now, known)
    for name, folder in folders.items():
        problems += folder.phrases if too_high({name: now[name]}, known) else []
    print("\n".join(problems), end="\n" if problems else "")
    return bool(problems)


def _written(name: str, now: dict[str, float], known: dict[str, float]) -> str:
    values = "\n".join(f"{kind} = {min(value, known.get(kind, value)):g}" for kind, value in now.items())
    return f'["{name}"]\n{values}\n\n'


if __name__ == "__main__":
    sys.exit(main())
