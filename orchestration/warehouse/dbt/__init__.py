"""dbt inside Sluice: parsed once, keyed by content, built into immutable relations.

Importing a module of this package never imports dbt itself; the calls that need it do.
"""
