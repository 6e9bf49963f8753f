"""The examples of shub-workflow's pages about managers: only their imports differ from the pages.

`crawlmanager.py` is the page's whole script, and may be run as a program.
"""
