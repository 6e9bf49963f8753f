"""HTTP API for front ends and programs, with the live page. A thin layer over `control.Control`.

`app` assembles the API; `runs`, `schedules`, `commands`, `audits` and `streams` are endpoints; `tokens` and
`doorkeeper` admit callers; `page/` is sent to browsers.
"""
