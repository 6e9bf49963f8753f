"""An installation put together: the parts by its settings, the store, all commands, the checks.

`Control` has the commands of every capability. A connection is opened by the first command in need.
"""
