"""What things cost, each beside its reference in the same process: `python -m benchmarks`.

`measure` measures, `scenes` builds what is measured (the tests count calls on the same scenes), one module a theme lists
its rows, `report` prints them.  A budget is part of its row.
"""
