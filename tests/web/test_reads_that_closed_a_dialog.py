import subprocess
from pathlib import Path
from shutil import which

import pytest

from tests.kit.data.databases import missing

pytestmark = pytest.mark.regression(
    "The dialog of examples/start_dialog closed if the API was away in the moment in which its notices were read"
)

NOTICES = Path(__file__).parents[2] / "examples" / "start_dialog" / "notices.js"
PROGRAM = """
const { firstNotice } = await import(process.argv[2]);
const answers = [...process.argv.slice(3)];
const read = async () => {
  const answer = answers.shift();
  if (answer === "started") return [{ kind: "started" }];
  throw Object.assign(new Error(answer), answer === "away" ? {} : { status: Number(answer) });
};
const subscribe = ({ confirmed }) => confirmed();
const { signal } = new AbortController();
const end = await firstNotice({ subscribe, read, signal }).catch((error) => ({ kind: error.message }));
console.log(end.kind, answers.length);
process.exit();
"""


@pytest.mark.parametrize(
    ("answers", "end"),
    [(("away", "503", "started"), "started 0"), (("404", "started"), "404 1"), (("422",), "422 0")],
)
@pytest.mark.long
def test_a_read_is_tried_again_unless_the_api_refuses_the_read(
    tmp_path: Path, answers: tuple[str, ...], end: str
) -> None:
    node = which("node")
    if node is None:
        missing("no Node on this machine")
    program = tmp_path / "program.mjs"
    program.write_text(PROGRAM)
    ran = subprocess.run(
        [str(node), program, NOTICES, *answers], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == end
