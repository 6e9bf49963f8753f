"""The HTTP API for front ends and programs, and the live page that is made with it. Thin over `control.Control`.

`app` puts it together; `runs`, `tasks`, `commands` and `streams` are its endpoints, `tokens` and `doorkeeper` say who
may use them, `page/` is what a browser gets.
"""
