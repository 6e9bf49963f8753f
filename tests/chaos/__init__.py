"""Nothing is lost: a whole stack, what it speaks to, everything that can happen to them, and the comparison afterwards.

`ground` is the stack on its disk and its database, `outside` what it speaks to, `faults` what happens to them,
`people` what is asked of runs meanwhile, `comparison` what has to be true when it is over. Two use them: `soak`
(`make chaos`), by chance, and `test_outages` (`make test-outages`), one fault after the other and two at a time.
"""
