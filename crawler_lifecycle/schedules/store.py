"""Commands for schedules in the database, since Temporal keeps only a schedule's last note."""

from sqlalchemy import ColumnElement, Connection, delete, insert, select

from crawler_lifecycle.database.schema import schedule_commands
from crawler_lifecycle.database.transactions import OnDatabase, reading, transaction
from crawler_lifecycle.database.types import is_text
from crawler_lifecycle.schedules.model import ScheduleCommand

MOST_COMMANDS = 20  # latest commands for a schedule


class SqlScheduleLog(OnDatabase):
    """`schedules.ports.ScheduleLog` in the database."""

    @transaction
    def add(self, tx: Connection, schedule_id: str, command: ScheduleCommand) -> None:
        if tx.scalar(select(schedule_commands.c.id).where(*_is_command(schedule_id, command))) is None:
            tx.execute(insert(schedule_commands), {"schedule": schedule_id, **dict(command)})

    @transaction
    def forget(self, tx: Connection, schedule_id: str, command: ScheduleCommand) -> None:
        tx.execute(delete(schedule_commands).where(*_is_command(schedule_id, command)))

    @reading
    def latest(self, connection: Connection, schedule_id: str) -> list[ScheduleCommand]:
        lines = schedule_commands.c
        query = select(lines.at, lines.command, lines.actor, lines.door).where(is_text(lines.schedule, schedule_id))
        newest = query.order_by(lines.id.desc()).limit(MOST_COMMANDS)
        return [ScheduleCommand(**row) for row in connection.execute(newest).mappings()]


def _is_command(schedule_id: str, command: ScheduleCommand) -> tuple[ColumnElement[bool], ...]:
    lines = schedule_commands.c
    return is_text(lines.schedule, schedule_id), lines.at == command.at, lines.command == command.command
