"""Gates: suites of expectations, evaluated by Great Expectations on a warehouse, as verdicts.

A suite is a YAML file in Great Expectations' own serialised form. A verdict says passed, warned
or failed; what could not be evaluated is an error and never reads as bad data. This package never
imports `orchestration`; importing it costs nothing, Great Expectations is imported on first use.
"""
