"""Default catalogue for a stack that was started without one."""

from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"  # exists only in a checkout
DEFAULT = EXAMPLES / "catalogue.toml"
PLACEHOLDER = (
    '# the scheduler service needs one crawler at least\n[crawlers.placeholder]\ncommand = ["{python}", "-V"]\n'
)


def catalogue_in(folder: Path) -> Path:
    """Return the example catalogue. Without a checkout, write a catalogue with a placeholder into the folder."""
    if DEFAULT.exists():
        return DEFAULT
    path = folder / "catalogue.toml"
    path.write_text(PLACEHOLDER)
    return path
