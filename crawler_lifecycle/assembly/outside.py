"""Makes the adapters chosen by the settings for notices, events and archives."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from crawler_lifecycle.settings import Settings
from crawler_lifecycle.settings.outside import NoticeSettings

if TYPE_CHECKING:
    from crawler_lifecycle.delivery.adapters.folder import FolderExporter
    from crawler_lifecycle.delivery.ports.outside import Announcer, Archiver, Pusher
    from crawler_lifecycle.delivery.pushers.fan_out import NamedPusher

SLOTS_PER_NOTICE = 4  # slots per notice sent at a time: notices take a quarter of a worker's slots at most


def announcer(settings: Settings) -> "Announcer":
    """Return the receiver for events: EventBridge if a bus is set, else the folder for exports."""
    export = settings.export
    if export.event_bus is None:
        return _exports_folder(settings)
    from crawler_lifecycle.delivery.aws.events import EventBridge

    return EventBridge(export.event_bus, export)


def archiver(settings: Settings) -> "Archiver":
    """Return the place for archives: S3 if a bucket is set, else the folder for exports."""
    export = settings.export
    if export.bucket is None:
        return _exports_folder(settings)
    from crawler_lifecycle.delivery.aws.archives import S3Archiver

    return S3Archiver(settings.files_folder, export.bucket, export)


def _exports_folder(settings: Settings) -> "FolderExporter":
    from crawler_lifecycle.delivery.adapters.archive_limits import ArchiveLimits
    from crawler_lifecycle.delivery.adapters.folder import FolderExporter

    limits = ArchiveLimits.from_settings(settings.export)
    return FolderExporter(settings.files_folder, settings.exports_folder, limits, with_events=settings.export.file)


def pusher(settings: Settings) -> "Pusher":
    """Return the pusher to all receivers in the settings: file, Pusher Channels, webhooks."""
    from crawler_lifecycle.delivery.pushers.fan_out import FanOut

    return FanOut([*_notice_file(settings), *_channels(settings.notices), *_webhooks(settings.notices)])


def receivers_are_files(settings: Settings) -> bool:
    """Return whether all notices and events go to files alone: files are never slow."""
    notices = settings.notices
    return settings.export.event_bus is None and notices.pusher_app_id is None and notices.webhooks is None


def limited_pusher(pusher: "Pusher", slots: int) -> "Pusher":
    """Limit the worker's slots for notices, since a slow receiver must not delay further activities."""
    from crawler_lifecycle.delivery.pushers.fan_out import LimitedPusher

    return LimitedPusher(pusher, max(1, slots // SLOTS_PER_NOTICE))


def _notice_file(settings: Settings) -> "Iterator[NamedPusher]":
    if settings.notices.file:
        from crawler_lifecycle.delivery.adapters.notices import FilePusher

        yield FilePusher(settings.exports_folder / "notices.jsonl")


def _channels(notices: NoticeSettings) -> "Iterator[NamedPusher]":
    if notices.pusher_app_id is not None:
        from crawler_lifecycle.delivery.pushers.channels import PusherChannels

        yield PusherChannels(notices.pusher_app_id, notices)


def _webhooks(notices: NoticeSettings) -> "Iterator[NamedPusher]":
    if notices.webhooks is not None:
        from crawler_lifecycle.delivery.pushers.webhooks import Webhook, endpoints

        for endpoint in endpoints(notices.webhooks.get_secret_value()):
            yield Webhook(endpoint, notices.timeout_seconds)
