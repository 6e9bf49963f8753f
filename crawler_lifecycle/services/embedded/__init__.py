"""Embedded stack: the whole service on one machine with nothing installed.

`plan` lists the parts and their settings, `child` keeps one part running, `stack` runs all parts, `reaper` ends the
parts of a killed stack, `jobs` finds jobs under way.
"""
