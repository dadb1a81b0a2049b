"""Ingestion: reads sources, checks and redacts their records, and loads them into staging."""
