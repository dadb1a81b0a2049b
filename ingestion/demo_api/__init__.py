"""A small service that serves the flights that left New York in 2013, as an internal API would.

It needs no network and no database. Faults and corrections are switched on at run time, so that a
pipeline can be shown everything a real service does wrong.
"""
