"""A large database on MariaDB, written by statements: runs of two years with tasks, labels, lines and flows.

Every value depends on the RunID alone, so that a test knows it. Some words are rare, some ended long ago.
"""

from datetime import datetime, timedelta

from sqlalchemy import Connection, text

from crawler_lifecycle.database.database import Database

YEARS = 2
CRAWLERS, REQUESTERS, SITES = 200, 50, 100
TASKS = 4  # of a run
OPEN = 40  # one run of twice as many is open: half of the newest
RUNS_OF_A_FLOW = 10
AT_ONCE = 25_000  # runs in a statement
LONG_AGO, NEVER = "oom_killed", "nothing_like_it"  # a reason of the first year alone, and a word that nothing has
WAITING = 500  # items of a manager
RARE = 5_000  # of so many runs, one has a rare word

HISTORIES = """
INSERT INTO histories (id, run_uid, installation, cluster, crawler, trigger_kind, requested_by, status, reason, intent,
    tasks, priority, admitted_at, workflow_id, first_execution_run_id, supervisor_workflow_id, supervisor_run_id, epoch,
    request, entry, waiting_cause, waiting_since, last_look_at, next_look_at, nudge_sent, nudge_acknowledged,
    export_state, end_number, flow_uid, flow_member, flow_attempt, outcome, created_at, begun_at, started_at,
    finished_at, changed_at)
SELECT seq, CONCAT(LPAD(HEX(seq), 8, '0'), '-0000-4000-8000-000000000000'), (SELECT uid FROM installation), 'default',
    CONCAT(ELT(1 + crawler % 3, 'Shop-', 'news-', 'maps-'), LPAD(crawler, 3, '0')),
    IF(r1 < 70, 'scheduled', IF(r1 < 95, 'api', 'manual')),
    IF(r1 < 70, NULL, IF(seq % {rare} = 0, 'rare@example.com',
        CONCAT('user', r2 % {requesters}, IF(r2 % 7 = 0, ' (token shop)', '')))),
    status, IF(is_open, NULL, IF(status = 'COMPLETED', 'all_succeeded',
        IF(seq % {rare} < 20, 'never_started', IF(is_early AND r3 < 30, '{long_ago}',
        IF(r3 < 70, 'main_job_failed', IF(r3 < 90, 'stopped', 'stopped_forced')))))),
    'RUN', {tasks}, 0, created_at, CONCAT('crawl-', seq), CONCAT('first-', seq), CONCAT('crawl-', seq),
    CONCAT('first-', seq), 1,
    IF(in_flow, JSON_OBJECT('crawler', 'c', 'flow', JSON_OBJECT('flow_id', CONCAT('flow-', flow), 'flow_uid', flow_uid,
        'member', seq % {of_flow}, 'path', CONCAT('job-', seq % {of_flow}), 'generation', 1, 'attempt', 1)),
        JSON_OBJECT('crawler', 'c')),
    JSON_OBJECT('name', 'c', 'command', JSON_ARRAY('true')),
    IF(is_open AND r2 < 10, 'capacity', NULL), IF(is_open AND r2 < 10, created_at, NULL), created_at,
    IF(is_open, created_at, NULL), 0, 0, IF(is_open, NULL, 'done'), IF(is_open, 0, 1),
    IF(in_flow, flow_uid, NULL), IF(in_flow, seq % {of_flow}, NULL), IF(in_flow, 1, NULL),
    IF(is_open, NULL, IF(status = 'COMPLETED', IF(seq % {rare} = 7, 'banned', 'finished'), 'failed')),
    created_at, created_at, created_at, IF(is_open, NULL, created_at + INTERVAL 1 HOUR),
    created_at + INTERVAL IF(is_open, 0, 1) HOUR
FROM (
    SELECT seq, r1, r2, r3, created_at, is_open, is_early, FLOOR({crawlers} * POW(r4 / 1000, 2)) AS crawler,
        IF(is_open, IF(r1 < 10, 'INITIALIZING', IF(r1 < 95, 'PROCESSING', 'STOPPING')),
            IF(r2 < 86, 'COMPLETED', 'FAILED')) AS status,
        (seq DIV {of_flow}) % 5 < 2 AS in_flow, seq DIV {of_flow} AS flow,
        CONCAT(LPAD(HEX(seq DIV {of_flow}), 8, '0'), '-1111-4000-8000-000000000000') AS flow_uid
    FROM (
        SELECT seq, CRC32(CONCAT('a', seq)) % 100 AS r1, CRC32(CONCAT('b', seq)) % 100 AS r2,
            CRC32(CONCAT('c', seq)) % 100 AS r3, CRC32(CONCAT('d', seq)) % 1000 AS r4, seq < {runs} DIV 2 AS is_early,
            seq > {runs} - {runs} DIV {open} AND seq % 2 = 0 AS is_open,
            CAST(:now AS DATETIME(6)) - INTERVAL ({runs} - seq) * {pause} MICROSECOND AS created_at
        FROM seq_{first}_to_{last}
    ) AS numbers
) AS runs
"""

TASK_HISTORIES = """
INSERT INTO task_histories (history_id, task, attempt, version, status, reason, exit_code, absent_count,
    infrastructure_failures, program_failures, queued_at, started_at, finished_at, restarts, log_tail, events)
SELECT id, seq, 1, 1,
    IF(status = 'COMPLETED', 'SUCCEEDED', IF(status = 'FAILED', 'FAILED', IF(seq = 0, 'RUNNING', 'QUEUED'))),
    IF(status = 'FAILED', 'exit_1', NULL), IF(status = 'FAILED', 1, NULL), 0, 0, 0, created_at, started_at,
    finished_at, 0, IF(status = 'FAILED', 'a last line', NULL), '[]'
FROM histories JOIN seq_0_to_{last_task} WHERE id BETWEEN {first} AND {last} ORDER BY id, seq
"""

LINES = """
INSERT INTO history_logs (history_id, entry_uid, at, event, message, actor, door)
SELECT id, seq, created_at, ELT(seq, 'created', 'ended'), 'a line', requested_by, 'api'
FROM histories JOIN seq_1_to_2 WHERE id BETWEEN {first} AND {last} ORDER BY id, seq
"""

LABELS = """
INSERT INTO history_labels (history_id, label)
SELECT id, CONCAT('site:', CRC32(CONCAT('e', id)) % {sites}) FROM histories WHERE id BETWEEN {first} AND {last}
UNION ALL SELECT id, 'kind:batch' FROM histories WHERE id BETWEEN {first} AND {last} AND id % 2 = 0
"""

TAGS = """
INSERT INTO run_tags (history_id, tag) SELECT id, IF(id % {rare} = 0, 'rare', 'night') FROM histories
WHERE id BETWEEN {first} AND {last} AND id % 5 = 0
"""

FLOWS = """
INSERT INTO flows (id, uid, flow_id, name, family, state, intent, accepts_members, fingerprint, ignore_cancelled,
    ignore_discarded, own_host, last_member, last_group, door, removal, epoch, version, created_at, updated_at,
    started_at, stopped_at, changed_at)
SELECT 1 + flow, flow_uid, CONCAT('flow-', flow), CONCAT('nightly-', flow % 300), CONCAT('family-', flow % 300),
    state, 'run', 1, '', 0, 0, '', {of_flow}, 0, 0, 0, 1, 1, created_at, created_at, created_at,
    IF(state = 'executing', NULL, created_at + INTERVAL 1 HOUR), created_at
FROM (
    SELECT id DIV {of_flow} AS flow, flow_uid, MIN(created_at) AS created_at, IF(
        id DIV {of_flow} > ({runs} - {runs} DIV {open}) DIV {of_flow}, 'executing',
        IF(id DIV {of_flow} % 20 = 0, 'discarded', 'completed')) AS state
    FROM histories WHERE flow_uid IS NOT NULL GROUP BY flow_uid
) AS flows
"""

MEMBERS = """
INSERT INTO flow_members (flow, number, path, path_uid, group_number, kind, needs, ignore_cancelled, ignore_discarded,
    retry, priority, ready, route, fingerprint, definition, state, generation, attempt, attempt_generation, tries,
    tries_by_outcome, in_flight, terminate, end_number, started_at, ended_at, door, changed_at)
SELECT flows.id, flow_member, CONCAT('job-', flow_member), CONCAT('job-', flow_member), 0, 'crawl', '[]', 0, 0, '{{}}',
    0, 'ended', '', '', '{{}}', IF(finished_at IS NULL, 'executing', 'completed'), 1, 1, 1, 1, '{{}}',
    finished_at IS NULL, 0, end_number, histories.started_at, finished_at, 0, histories.changed_at
FROM histories JOIN flows ON flows.uid = flow_uid WHERE histories.id BETWEEN {first} AND {last}
"""
ITEMS = """
INSERT INTO manager_items (flow, manager, number, member, origin, state, place, generation, attempt, tries, override,
    changed_at)
SELECT {flow}, {manager}, seq, seq, 'generator',
    IF(seq % {rare} = 0, 'failed', IF(seq <= {begun}, 'completed', 'waiting')),
    2, 1, seq <= {begun}, seq <= {begun}, '{{}}', :now
FROM seq_1_to_{items}
"""

ITEM_ATTEMPTS = """
INSERT INTO manager_attempts (flow, manager, number, attempt, member, generation, tries, override, request, began_at,
    ended_at, outcome, is_failed, reacted_at)
SELECT flow, manager, number, 1, number, 1, 1, '{{}}',
    IF(number % {rare} = 0, '{{"crawler": "c", "tags": ["rare"]}}', '{{"crawler": "c", "tags": ["night"]}}'),
    :now, :now, IF(number % {rare} = 7, 'banned', 'finished'), 0, :now
FROM manager_items WHERE flow = {flow} AND manager = {manager} AND number <= {begun}
"""
OF_RUNS = (HISTORIES, TASK_HISTORIES, LINES, LABELS, TAGS)


def fill(database: Database, runs: int, now: datetime) -> None:
    """Write this many runs, the newest one created now."""
    sizes = {
        **{"runs": runs, "rare": RARE, "requesters": REQUESTERS, "crawlers": CRAWLERS, "sites": SITES, "open": OPEN},
        **{"tasks": TASKS, "last_task": TASKS - 1, "of_flow": RUNS_OF_A_FLOW, "long_ago": LONG_AGO},
        "pause": timedelta(days=365 * YEARS) // timedelta(microseconds=runs),
    }
    for first in range(1, runs + 1, AT_ONCE):
        part = {"first": first, "last": min(first + AT_ONCE - 1, runs)}
        for statement in OF_RUNS:
            _write(database, statement.format(**sizes, **part), now)
    _write(database, FLOWS.format(**sizes), now)
    _write(database, MEMBERS.format(first=1, last=runs), now)
    with database.read() as connection:
        for table in ("histories", "task_histories", "history_labels", "run_tags", "flows", "flow_members"):
            connection.execute(text(f"ANALYZE TABLE {table}")).all()


def fill_manager(database: Database, flow: int, manager: int, items: int, now: datetime) -> None:
    """Write this many items, all but some ended."""
    sizes = {"flow": flow, "manager": manager, "items": items, "begun": items - WAITING, "rare": RARE}
    for statement in (ITEMS, ITEM_ATTEMPTS):
        _write(database, statement.format(**sizes), now)
    with database.read() as connection:
        for table in ("manager_items", "manager_attempts"):
            connection.execute(text(f"ANALYZE TABLE {table}")).all()


def _write(database: Database, statement: str, now: datetime) -> None:
    def write(tx: Connection) -> None:
        tx.execute(text("SET max_statement_time = 0"))
        tx.execute(text(statement.replace(":now", f"'{now:%Y-%m-%d %H:%M:%S}'")))

    database.transact(write)
