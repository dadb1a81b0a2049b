"""What each pipeline is: one YAML file each."""
