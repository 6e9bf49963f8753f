"""Every cause and reason of a member has a sentence."""

from crawler_lifecycle.flows.cli.lines import cause_in_words
from crawler_lifecycle.flows.rules import words

# an ended member's state and one of these words, without underscores, say why it ended
PLAIN = {words.BY_ITSELF, words.DRAINED, words.STOPPED, words.REJECTED, words.TIMEOUT}


def test_each_word_has_a_sentence_or_is_plain() -> None:
    known = {value for name, value in vars(words).items() if name.isupper() and isinstance(value, str)}
    shown = words.SENTENCES.keys() | words.SENTENCES_WITH_NAME.keys()
    assert known - shown == PLAIN
    assert shown <= known


def test_a_trouble_has_its_sentence_beside_it() -> None:
    silent = "its host is silent, and no other host of shops has taken over (crawlctl host shops)"
    assert cause_in_words("silent_host:shops") == f"silent_host:shops: {silent}"
    assert (
        cause_in_words("broken_module:line 2") == "broken_module: line 2; the step starts once the module is repaired"
    )
    assert cause_in_words("start") == "start: no worker has taken the crawl yet"
    assert cause_in_words("parallel_limit:shops") == "parallel_limit:shops"
    assert cause_in_words("executing") is None
