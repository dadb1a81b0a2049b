"""Named SQL and the migrations."""
