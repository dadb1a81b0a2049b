"""What a run is and how far it got."""
