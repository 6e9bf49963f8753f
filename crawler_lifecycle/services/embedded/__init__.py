"""The whole service on one machine with nothing installed: who starts it, keeps it up and ends it?

`plan` says which parts there are and how they are set up, `child` keeps one of them running, `stack` all of
them, `reaper` ends them when the stack itself was killed, `jobs` knows the crawls that are under way.
"""
