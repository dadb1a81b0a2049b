"""Sluice's orchestration shim: what was asked for, how far it got, and what readers see."""
