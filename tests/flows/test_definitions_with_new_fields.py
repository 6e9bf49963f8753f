import pytest

from crawler_lifecycle.flows import Workflow, crawl
from crawler_lifecycle.flows.model.definition import MemberDefinition
from crawler_lifecycle.flows.rules.compiling import fingerprint
from tests.kit.authors.work import plain

pytestmark = pytest.mark.regression(
    "A new field with a default made an unchanged definition another one, and a push of started jobs a conflict"
)


class Newer(MemberDefinition):
    colour: str = "red"


def test_a_new_field_changes_no_fingerprint() -> None:
    workflow = Workflow().add("shop", crawl("books", settings={"DELAY": "2"})).add("load", plain).add_approval("go")
    members = workflow.definition().members
    newer = [Newer.model_validate(member.model_dump()) for member in members]
    assert [*map(fingerprint, newer)] == [*map(fingerprint, members)]
    assert len({*map(fingerprint, members)}) == 3
    assert fingerprint(newer[0].model_copy(update={"colour": "blue"})) != fingerprint(members[0])
