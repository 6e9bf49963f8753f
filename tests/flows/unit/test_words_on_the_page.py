"""The page has a sentence for every cause and reason of a member."""

import re
from pathlib import Path

from crawler_lifecycle.flows.cli.lines import cause_in_words
from crawler_lifecycle.flows.rules import words

STANDING = (Path(__file__).parents[3] / "crawler_lifecycle/web/page/standing.js").read_text()
# an ended member's state and one of these words, without underscores, say why it ended
PLAIN = {words.BY_ITSELF, words.DRAINED, words.STOPPED, words.REJECTED, words.TIMEOUT}


def sentences(table: str, pattern: str) -> dict[str, str]:
    match = re.search(rf"^const {table} = \{{(.*?)^\}};", STANDING, re.MULTILINE | re.DOTALL)
    assert match
    return dict(re.findall(pattern, match[1]))


def test_each_word_has_a_sentence_or_is_plain() -> None:
    known = {value for name, value in vars(words).items() if name.isupper() and isinstance(value, str)}
    with_name = sentences("WITH_NAME", r"(\w+): \(\w+\) => `(.*?)`")
    shown = sentences("WORDS", r'(\w+): "(.*?)"') | with_name
    assert known - shown.keys() == PLAIN
    assert not PLAIN & shown.keys()
    silent = with_name[words.SILENT_HOST].replace("${name}", "shops")
    assert cause_in_words(f"{words.SILENT_HOST}:shops") == f"silent_host:shops: {silent} (crawlctl host shops)"
