"""The only code that knows the warehouse: connections, roles, dbt, store, artifacts."""
