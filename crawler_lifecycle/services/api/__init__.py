"""HTTP API for front ends and programs, with the live page. The API is a thin layer over `control.Control`.

`app` assembles the API. `runs`, `flows` and `schedules` are endpoints, with a protocol for the needed commands, such
as `HasRuns`; `state` has the objects that all endpoints share, `events` the streams; `tokens` and `caller_check` admit
callers; `page/` is sent to browsers.
"""
