"""Partitioned models as segments: which exist, how they are laid out, built, merged and checked."""
