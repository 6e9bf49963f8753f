"""Makes the chosen adapters for notices, events and archives from the settings."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from crawler_lifecycle.settings import Settings
from crawler_lifecycle.settings.outside import NoticeSettings

if TYPE_CHECKING:
    from crawler_lifecycle.adapters.folder import FolderExporter
    from crawler_lifecycle.adapters.pushers.fan_out import NamedPusher
    from crawler_lifecycle.ports import Announcer, Archiver, Pusher

SLOTS_PER_NOTICE = 4  # notices take at most a quarter of a worker's slots


def announcer(settings: Settings) -> "Announcer":
    chosen = settings.export
    if chosen.event_bus is None:
        return _exports_folder(settings)
    from crawler_lifecycle.adapters.aws.events import EventBridge

    return EventBridge(chosen.event_bus, chosen)


def archiver(settings: Settings) -> "Archiver":
    chosen = settings.export
    if chosen.bucket is None:
        return _exports_folder(settings)
    from crawler_lifecycle.adapters.aws.archives import S3Archiver

    return S3Archiver(settings.files_folder, chosen.bucket, chosen)


def _exports_folder(settings: Settings) -> "FolderExporter":
    from crawler_lifecycle.adapters.folder import FolderExporter

    return FolderExporter(settings.files_folder, settings.exports_folder)


def pusher(settings: Settings) -> "Pusher":
    from crawler_lifecycle.adapters.pushers.fan_out import FanOut

    return FanOut([*_notice_file(settings), *_channels(settings.notices), *_webhooks(settings.notices)])


def limited(pusher: "Pusher", slots: int) -> "Pusher":
    """Limit the worker slots for notices, since a slow receiver must not delay further activities."""
    from crawler_lifecycle.adapters.pushers.fan_out import LimitedPusher

    return LimitedPusher(pusher, max(1, slots // SLOTS_PER_NOTICE))


def _notice_file(settings: Settings) -> "Iterator[NamedPusher]":
    if settings.notices.file:
        from crawler_lifecycle.adapters.notices import FilePusher

        yield FilePusher(settings.exports_folder / "notices.jsonl")


def _channels(chosen: NoticeSettings) -> "Iterator[NamedPusher]":
    if chosen.pusher_app_id is not None:
        from crawler_lifecycle.adapters.pushers.channels import PusherChannels

        yield PusherChannels(chosen.pusher_app_id, chosen)


def _webhooks(chosen: NoticeSettings) -> "Iterator[NamedPusher]":
    if chosen.webhooks is not None:
        from crawler_lifecycle.adapters.pushers.webhooks import Webhook, endpoints

        for endpoint in endpoints(chosen.webhooks.get_secret_value()):
            yield Webhook(endpoint, chosen.timeout_seconds)
