"""Generated lives of one job in a cluster, disturbed looks at them, and the statements that must hold after each look.

Everything is drawn from one `Random`: hypothesis passes a generator that it can shrink, the soak a seeded one.
"""
