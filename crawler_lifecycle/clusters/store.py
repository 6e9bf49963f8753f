"""The place of the installation's jobs (a namespace in a cluster), kept in the installation's row."""

from sqlalchemy import Connection, select, update

from crawler_lifecycle.clusters.ports import JobsPlace
from crawler_lifecycle.database.schema import installation
from crawler_lifecycle.database.transactions import OnDatabase, reading, transaction

COLUMNS = (installation.c.namespace, installation.c.namespace_uid, installation.c.cluster_uid)


class SqlPlaces(OnDatabase):
    """`clusters.ports.Places` in the database."""

    @reading
    def known(self, connection: Connection) -> JobsPlace | None:
        return _known_place(connection)

    @transaction
    def keep(self, tx: Connection, place: JobsPlace, instead_of: JobsPlace | None) -> None:
        """Write the place if `instead_of` (None: no place) is still the recorded place."""
        tx.execute(select(installation.c.id).with_for_update())
        if _known_place(tx) == instead_of:
            values = {"namespace": place.namespace, "namespace_uid": place.namespace_uid}
            tx.execute(update(installation).values(values | {"cluster_uid": place.cluster_uid}))


def _known_place(connection: Connection) -> JobsPlace | None:
    """Return the recorded place; None before the first look."""
    row = connection.execute(select(*COLUMNS)).one_or_none()
    if row is None or row.namespace is None:
        return None
    return JobsPlace(row.namespace, row.namespace_uid, row.cluster_uid)
