"""What differs between two versions, or between a preview and a version: values first, then words."""
