"""Numbered migrations; applied by orchestration.warehouse.migrations."""
