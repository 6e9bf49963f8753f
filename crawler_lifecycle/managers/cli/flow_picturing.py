"""The command `flow graph`, which draws a stored flow or an author's file."""

from datetime import UTC, datetime
from pathlib import Path

import click

from crawler_lifecycle.console.common import print_json, standard_options
from crawler_lifecycle.flows.cli.options import flow_argument, open_flows, workflow_option

FORMATS = ("mermaid", "dot", "states-dot")


@click.command()
@flow_argument
@click.option("--format", "kind", type=click.Choice(FORMATS), default="mermaid", show_default=True,
              help="Mermaid or Graphviz; states-dot: as Chancy draws.")  # fmt: skip
@click.option("--no-states", is_flag=True, help="With Mermaid: without the colours of states.")
@workflow_option
@standard_options
def graph(flow: str, kind: str, no_states: bool, workflow_name: str | None, state: Path | None, as_json: bool) -> None:
    """Print the picture of FLOW: a flow's id, or an author's file before its push.

    \b
    Examples:
      crawlctl flow graph nightly-2026-11-22
      crawlctl flow graph bookshop_graph.py --format dot | dot -Tsvg -o graph.svg
    """
    from crawler_lifecycle.flows.commands.pictures import picture
    from crawler_lifecycle.flows.rules import merging
    from crawler_lifecycle.managers.cli.flow_files import is_file, workflow_for_picture

    if is_file(flow):
        workflow = workflow_for_picture(Path(flow), workflow_name)
        definition = workflow.definition()
        merging.push(merging.new_ledger(definition), definition, datetime.now(UTC))  # refuses what a push refuses
        flow, text = workflow.id, picture(workflow, kind, states=False)
    else:
        text = open_flows(state).graph(flow, kind, states=not no_states)
    if as_json:
        print_json({"flow": flow, "format": kind, "graph": text})
    else:
        click.echo(text.rstrip("\n"))
