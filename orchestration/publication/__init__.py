"""Versions and the pointer flip that makes one of them what readers see."""
