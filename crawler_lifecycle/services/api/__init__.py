"""HTTP API for front ends and programs, with the live page. The API is a thin layer over `control.Control`.

`app` assembles the API; `runs`, `archives`, `schedules`, `commands`, `audits` and `streams` are endpoints; `state` has
the objects that all endpoints share; `tokens` and `caller_check` admit callers; `page/` is sent to browsers.
"""
