"""The commands for flows: graphs of crawls and Python steps, and crawl managers."""

import click

from crawler_lifecycle.console.failures import Commands
from crawler_lifecycle.flows.cli import reading as flow_reading
from crawler_lifecycle.flows.cli import requests as flow_requests
from crawler_lifecycle.flows.cli import watching as flow_watching
from crawler_lifecycle.managers.cli import flow_checking, flow_pushing
from crawler_lifecycle.stack import flow_running


@click.group(cls=Commands)
def flow() -> None:
    """Run graphs of crawls and Python steps, and crawl managers.

    \b
    Start with:
      crawlctl flow run bookshop_graph.py     a graph from start to end, on this machine
      crawlctl flow run shops_manager.py      a crawl manager from start to end, on this machine
      crawlctl flow start module:Manager      store and start a crawl manager; print its flow's id
      crawlctl flow push bookshop_graph.py    store and start a graph; print its id
      crawlctl flow watch ID                  follow a graph to its end
      crawlctl flow why ID                    explain what a flow waits for; with a job's name, the job
    """


for module in (flow_checking, flow_pushing, flow_reading, flow_requests, flow_running, flow_watching):
    for command in vars(module).values():
        if isinstance(command, click.Command):
            flow.add_command(command)
