"""The one door through which runs come in."""
