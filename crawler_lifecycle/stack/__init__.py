"""The whole service on one machine, without an installation of servers: `crawlctl up` and the demo.

`plan` lists the parts and their settings, `child` keeps a part running, `stack` runs all parts, `reaper` ends the parts
of a killed stack, `jobs` finds and ends jobs, `interruption` handles signals, `processes` ends processes.
"""
