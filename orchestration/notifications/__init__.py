"""Telling owners: where each is reached, what they are told, and the delivery."""
