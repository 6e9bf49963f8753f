"""Messages about crawl managers: steps with crawls of their own, which an object of the author chooses.

A manager's crawls are members of its flow, with the manager's number in their rows. The flow's supervisor brings the
manager on as a step; the manager alone brings its crawls on.
"""
