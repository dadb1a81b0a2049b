"""The seven stages, one file each; a stage returns a result and never writes its own checkpoint."""
