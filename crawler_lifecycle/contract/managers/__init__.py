"""Messages about crawl managers: steps with their own crawls, chosen by the author's object.

A manager's crawls are members of its flow, with the manager's number in their rows. The flow's supervisor brings the
manager on as a step; the manager alone brings its crawls on.
"""
