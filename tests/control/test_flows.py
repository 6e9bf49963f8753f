"""The commands for flows in Python, on a database, with Temporal away or without workers."""

import asyncio
import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crawler_lifecycle.adapters.sql.database import Database
from crawler_lifecycle.contract.flows.requests import (
    AppendMembers,
    ApproveMember,
    CancelMembers,
    HoldFlow,
    PushFlow,
    RetryMembers,
    StopFlow,
    StopWay,
)
from crawler_lifecycle.contract.flows.states import FlowState, MemberState
from crawler_lifecycle.control.context import Context
from crawler_lifecycle.control.engine import Engine
from crawler_lifecycle.control.flows import commands as module
from crawler_lifecycle.control.flows.commands import FlowCommands
from crawler_lifecycle.control.flows.following import FlowView
from crawler_lifecycle.control.installation import Installation
from crawler_lifecycle.domain.flows.pruning import Age
from crawler_lifecycle.errors import BadInput, Conflict, NotFound
from crawler_lifecycle.flows import Workflow, crawl
from tests.databases import copy_of
